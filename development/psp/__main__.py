"""`python -m development.psp --bind 127.0.0.1:8790`: serve the fake payment provider."""

# ruff: noqa: E402
from gevent import monkey

monkey.patch_all()  # before anything else is imported

import hashlib
import hmac
import logging
import time
from argparse import ArgumentParser
from collections.abc import Callable
from typing import Any

import gevent
import msgspec
import urllib3
from gevent.pool import Pool
from gevent.pywsgi import WSGIHandler, WSGIServer

from development import environment
from development.folder import secret
from development.psp.api import Api
from development.psp.books import Behaviour, Books

log = logging.getLogger("development.psp")

SECRETS = ("PSP_KEY", "PSP_WEBHOOK_SECRET")

SENDERS = 16
"""Events on the way at once."""

TIMEOUT = 5.0
"""Seconds to wait for the shop."""

PAUSE = 0.02
"""Seconds between two looks at what is due: far less than the times that are configured."""


class Sender:
    """Sends each webhook event, signed with `secret`, until the shop accepts it.

    An event is written in the transaction that causes it. Before each attempt the next one is
    scheduled, so that an event is due again if the provider dies.
    """

    def __init__(self, books: Books, secret: str) -> None:
        self._books, self._secret = books, secret.encode()
        self._client = urllib3.PoolManager(maxsize=SENDERS)
        self._pool = Pool(SENDERS)

    def start(self) -> None:
        """Settle and send from now on, each in a greenlet of its own."""
        gevent.spawn(_forever, self._books.settle)
        gevent.spawn(_forever, self._send_due)

    def _send_due(self) -> None:
        self._pool.map(lambda event: self._send(*event), self._books.claim_events())

    def _send(self, event: str, body: str) -> None:
        url = self._books.behaviour.webhook_url
        if not url:  # it was unset after the event was written
            return
        headers = {
            "Content-Type": "application/json",
            "PSP-Signature": self._signature(body.encode(), int(time.time())),
        }
        try:
            answer = self._client.request(
                "POST", url, body=body.encode(), headers=headers, timeout=TIMEOUT, retries=False
            )
        except urllib3.exceptions.HTTPError:
            return
        if 200 <= answer.status < 300:
            self._books.sent(event)

    def _signature(self, body: bytes, now: int) -> str:
        digest = hmac.new(self._secret, b"%d.%s" % (now, body), hashlib.sha256)
        return f"t={now},v1={digest.hexdigest()}"


def _forever(work: Callable[[], None]) -> None:
    while True:
        try:
            work()
        except Exception:  # nothing would restart this greenlet
            log.exception("failed; will try again")
        gevent.sleep(PAUSE)


class Handler(WSGIHandler):  # type: ignore[misc]  # gevent has no types
    """Tells the application its socket, so that it can lose an answer."""

    def get_environ(self) -> dict[str, Any]:
        """Return the request's variables."""
        return {**super().get_environ(), "psp.socket": self.socket}

    def start_response(self, status: str, headers: list[tuple[str, str]], *more: Any) -> Any:
        """Begin the answer; confirm the end of the connection to a client that asked for it."""
        closing = [("Connection", "close")] if self.close_connection else []
        return super().start_response(status, [*headers, *closing], *more)


def default_behaviour() -> Behaviour:
    """Return the behaviour that the environment configures.

    Raises:
        SystemExit: it cannot be parsed.
    """
    try:
        fields = msgspec.json.decode(environment.text("PSP_BEHAVIOUR") or "{}")
        webhook_url = environment.text("PSP_WEBHOOK_URL")
        return msgspec.convert({"webhook_url": webhook_url, **fields}, Behaviour)
    except (ValueError, TypeError) as error:
        raise SystemExit(f"error: PSP_BEHAVIOUR: {error}") from error


def main() -> None:
    """Serve until the process is stopped."""
    parser = ArgumentParser(prog="development.psp")
    parser.add_argument("--bind", required=True, metavar="HOST:PORT")
    parser.add_argument("--back", default="", metavar="URL", help="where its page leads back to")
    options = parser.parse_args()
    logging.basicConfig(
        level=logging.WARNING, format="{asctime} {levelname} {name}: {message}", style="{"
    )
    demo = environment.switch("SHOP_DEMO")
    missing = [name for name in SECRETS if not demo and not environment.is_set(name)]
    if missing:
        raise SystemExit(f"error: Not in demo mode, so these must be set: {', '.join(missing)}.")
    key, webhook_secret = map(secret, SECRETS)
    books = Books(environment.text("PSP_DATABASE") or ":memory:", default_behaviour())
    Sender(books, webhook_secret).start()
    public_url = environment.text("PSP_PUBLIC_URL").rstrip("/")
    api = Api(books, key, demo=demo, public_url=public_url, back=options.back)
    # Refusals such as 402 are outcomes, so nothing logs requests.
    WSGIServer(options.bind, api, backlog=4096, log=None, handler_class=Handler).serve_forever()


if __name__ == "__main__":
    main()
