"""Settle what is pending, and send each webhook event until the shop accepts it.

An event is written in the transaction that causes it. Before each attempt the next one is
scheduled, so that an event is due again if the provider dies.
"""

from __future__ import annotations

import hashlib
import hmac
import logging
import time
from collections.abc import Callable

import gevent
import urllib3
from gevent.pool import Pool

from lab.psp.books import Books

log = logging.getLogger(__name__)

SENDERS = 16
"""Events on the way at once."""

TIMEOUT = 5.0
"""Seconds to wait for the shop."""

PAUSE = 0.02
"""Seconds between two looks at what is due: far less than the times that are configured."""


class Sender:
    """Sends events, signed with `secret`."""

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
