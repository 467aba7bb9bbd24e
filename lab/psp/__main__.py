"""`python -m lab.psp --bind 127.0.0.1:8790`: serve."""

# ruff: noqa: E402
from gevent import monkey

monkey.patch_all()  # before anything else is imported

import logging
from argparse import ArgumentParser
from typing import Any

import msgspec
from gevent.pywsgi import WSGIHandler, WSGIServer

from development.folder import kept_secret
from lab import environment
from lab.psp.api import Api
from lab.psp.behaviour import Behaviour
from lab.psp.books import Books
from lab.psp.webhooks import Sender


class Handler(WSGIHandler):
    """Tells the application its socket, so that it can lose an answer."""

    def get_environ(self) -> dict[str, Any]:
        """Return the request's variables."""
        return {**super().get_environ(), "psp.socket": self.socket}

    def start_response(self, status: str, headers: list[tuple[str, str]], *more: Any) -> Any:
        """Begin the answer; a client that asked for the end of its connection is told of it."""
        closing = [("Connection", "close")] if self.close_connection else []
        return super().start_response(status, [*headers, *closing], *more)


def secret(name: str, *, demo: bool) -> str:
    """Return a secret of the environment, in the demo one of its own.

    Raises:
        SystemExit: it is missing.
    """
    value = environment.text(name)
    if not value and not demo:
        raise SystemExit(f"error: Not in demo mode, so this must be set: {name}.")
    return value or kept_secret(name.lower().replace("_", "-"))


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
    parser = ArgumentParser(prog="lab.psp")
    parser.add_argument("--bind", required=True, metavar="HOST:PORT")
    bind = parser.parse_args().bind
    logging.basicConfig(
        level=logging.WARNING, format="{asctime} {levelname} {name}: {message}", style="{"
    )
    demo = environment.switch("SHOP_DEMO")
    books = Books(environment.text("PSP_DATABASE") or ":memory:", default_behaviour())
    Sender(books, secret("PSP_WEBHOOK_SECRET", demo=demo)).start()
    api = Api(books, secret("PSP_KEY", demo=demo), demo=demo)
    # Refusals such as 402 are outcomes, so nothing logs requests.
    WSGIServer(bind, api, backlog=4096, log=None, handler_class=Handler).serve_forever()


if __name__ == "__main__":
    main()
