"""Walks: which files of the product a request goes through, followed with Python's profiler.

Each request is made twice, and recorded when the caches are warm.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from datetime import timedelta
from functools import cache, partial
from pathlib import Path
from types import CodeType, FrameType
from typing import Any
from uuid import uuid4

from django.conf import settings
from django.core.handlers.wsgi import WSGIHandler
from django.db import connection
from django.db.models import F
from django.test import RequestFactory, override_settings

from inventory import conf
from inventory.models import Reservation
from lab.demo.data import create_synthetic_buyers
from lab.environment import PROJECT
from lab.proof.testbed import misbehave
from shop.api.handler import ApiHandler
from shop.background.expiry import queue
from shop.background.follow_up import deliver
from shop.background.tasks import expire_due
from shop.catalogue.sales import open_sale
from shop.orders.models import Order
from shop.payments.models import Payment
from shop.payments.provider import provider

ROOMS = ("shop", "inventory", "locking", "serving")
"""The packages that a walk follows; Django and other libraries are not counted."""


@dataclass(slots=True)
class Walk:
    """The files that a request entered.

    Attributes:
        request: its name.
        calls: of functions, by file, in the order in which the files were entered first.
        moves: calls from one file to another.
    """

    request: str
    calls: Counter[str] = field(default_factory=Counter)
    moves: int = 0


@contextmanager
def walking(request: str) -> Iterator[Walk]:
    """Record the calls that this thread makes inside the block."""
    walk = Walk(request)

    def profile(frame: FrameType, event: str, _: object) -> None:
        if event == "call" and (file := _file(frame.f_code)):
            walk.calls[file] += 1
            walk.moves += file != _caller(frame)

    sys.setprofile(profile)
    try:
        yield walk
    finally:
        sys.setprofile(None)


def _caller(frame: FrameType) -> str:
    """Return the file of a room from which a function was called, perhaps by way of others."""
    above = frame.f_back
    while above is not None and not _file(above.f_code):
        above = above.f_back
    return _file(above.f_code) if above else ""


@cache
def _file(code: CodeType) -> str:
    """Return the path of a function's file in the project; empty if it is not in a room."""
    path = Path(code.co_filename)
    if not path.is_relative_to(PROJECT):
        return ""
    inside = path.relative_to(PROJECT)
    return str(inside) if inside.parts[0] in ROOMS and "tests" not in inside.parts else ""


class WalkFailed(Exception):
    """A request was not answered as it should be."""


class Caller:
    """A buyer who calls the API in this process, as the web server would."""

    def __init__(self) -> None:
        self._sale = open_sale(stock=100, limit=100, price=99_900, listed=False).pk
        [token] = create_synthetic_buyers(1)
        self._authorization = {"authorization": f"Bearer {token}"}
        self._answer = ApiHandler(WSGIHandler())

    def purchase(self) -> Walk:
        """Walk a purchase."""
        return self._walk("purchase", lambda: None, lambda _: self._buy())

    def all(self) -> list[Walk]:
        """Walk a purchase, a payment, a refund, a cancellation, an expiry and a webhook.

        Raises:
            WalkFailed: a request was refused.
        """
        pay, refund, cancel = (
            partial(self._post, what) for what in ("payment", "refund", "cancel")
        )
        walks = [
            self.purchase(),
            self._walk("payment", self._buy, pay),
            self._walk("refund", self._paid, refund),
            self._walk("cancellation", self._buy, cancel),
            self._walk("expiry", self._due, self._expire),
            self._walk("webhook", self._captured, self._deliver),
        ]
        connection.close()
        return walks

    def _walk(self, name: str, prepare: Callable[[], Any], request: Callable[[Any], Any]) -> Walk:
        # As outside the lab, where sales have no strategies.
        with override_settings(INVENTORY_SELLER=conf.SELLER.default):
            request(prepare())  # so that caches are warm
            given = prepare()
            with walking(name) as walk:
                request(given)
        return walk

    def _buy(self) -> int:
        body = json.dumps({"quantity": 1}).encode()
        path = f"/api/v1/sales/{self._sale}/orders"
        pk: int = self._call(path, body, {"idempotency-key": str(uuid4())})["id"]
        return pk

    def _paid(self) -> int:
        order = self._buy()
        self._post("payment", order)
        return order

    def _due(self) -> int:
        """Return an order whose time to pay has passed."""
        order, passed = self._buy(), timedelta(days=1)
        Reservation.objects.filter(orderline__order=order).update(deadline=F("deadline") - passed)
        deliver(60)
        Order.objects.filter(pk=order).update(pay_before=F("pay_before") - passed)
        queue().enqueue([str(order)], timedelta(0).total_seconds(), reschedule=True)
        return order

    def _expire(self, order: int) -> None:
        if expire_due() != 1:
            raise WalkFailed(f"order {order} did not expire")

    def _captured(self) -> bytes:
        """Return the event by which the payment provider reports a capture that it put off."""
        misbehave(settings.PSP_URL, processing=3_600_000)
        order = self._paid()
        intent = provider().get(Payment.objects.get(order=order).intent)
        event = {"id": f"evt_{uuid4().hex}", "type": "payment_intent.captured"}
        captured = asdict(replace(intent, status="captured"))
        return json.dumps({**event, "data": captured}).encode()

    def _deliver(self, event: bytes) -> None:
        now = str(int(time.time()))
        secret = settings.PSP_WEBHOOK_SECRET.encode()
        signed = hmac.new(secret, now.encode() + b"." + event, hashlib.sha256).hexdigest()
        self._call("/api/v1/webhooks/psp", event, {"psp-signature": f"t={now},v1={signed}"})

    def _post(self, what: str, order: int) -> None:
        self._call(f"/api/v1/orders/{order}/{what}", b"", {})

    def _call(self, path: str, body: bytes, headers: dict[str, str]) -> Any:
        request = RequestFactory().generic(
            "POST",
            path,
            body,
            "application/json",
            headers={"host": settings.ALLOWED_HOSTS[0], **self._authorization, **headers},
        )
        answered: list[str] = []
        parts = self._answer(request.environ, lambda status, *_: answered.append(status))
        content = b"".join(parts)
        if answered[0] >= "300":
            raise WalkFailed(f"{path} was answered {answered[0]}: {content!r}")
        return json.loads(content)
