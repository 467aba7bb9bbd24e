"""A request whose body ends early is not executed, whatever it asks for."""

from __future__ import annotations

import hashlib
import hmac
import json
import time
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode
from uuid import uuid4

import pytest
from django.apps import apps
from django.conf import settings
from django.contrib.auth.hashers import make_password
from django.middleware.csrf import _get_new_csrf_string
from django.test import Client
from django.urls import get_resolver

from shop import payments
from shop.api.handler import routes
from shop.conftest import Buyer
from shop.orders.models import Order
from shop.tests.catalogue import PASSWORD, a_buyer, a_sale
from shop.tests.processes import exchange, request

pytestmark = pytest.mark.django_db(transaction=True)

MORE = 4
"""Bytes that a body's length promises and that never come."""

EXECUTED = (b"HTTP/1.1 20", b"HTTP/1.1 302", b"HTTP/1.1 503")
"""Beginnings of answers; 503 where the payment provider is asked, which does not run here."""


@dataclass
class Try:
    """A request that changes something."""

    path: str
    headers: list[str]
    body: bytes

    def whole(self) -> bytes:
        """Write the request, on a connection that ends with it."""
        return request("POST", self.path, *self.headers, "Connection: close", body=self.body)

    def truncated(self) -> list[bytes]:
        """Write the request with a body that ends early, also where nothing seems to be missing."""
        length = len(self.body) + MORE
        bodies = dict.fromkeys((self.body, self.body[: len(self.body) // 2], b""))
        written = [
            request("POST", self.path, *self.headers, body=body, length=length) for body in bodies
        ]
        # gunicorn reads a call with an unusual header.
        written += [each.replace(b"\r\n", b"\r\nX-A: 1\r\nX-A: 2\r\n", 1) for each in written]
        sized = f"Content-Length: {length}".encode()
        chunks = written[0].replace(sized, b"Transfer-Encoding: chunked")
        whole = b"%x\r\n%s\r\n" % (len(self.body), self.body) if self.body else b""
        return [*written, chunks.removesuffix(self.body) + whole]


def tables() -> dict[str, list[Any]]:
    """Return all rows of the database."""
    return {
        model._meta.label: sorted(model._base_manager.values_list(), key=repr)
        for model in apps.get_models()
    }


def paid_order(buyer: Buyer) -> int:
    order = buyer.order(a_sale(limit=2), 2)
    payments.pay(Order.objects.get(pk=order))
    return order


def a_name() -> str:
    """Return the name of a user whose password the server can verify, unlike the tests' own."""
    user = a_buyer()
    user.password = make_password(PASSWORD, hasher="pbkdf2_sha256")
    user.save()
    return user.username


def signed(body: bytes) -> str:
    now = str(int(time.time()))
    key = settings.PSP_WEBHOOK_SECRET.encode()
    return f"t={now},v1={hmac.new(key, now.encode() + b'.' + body, hashlib.sha256).hexdigest()}"


def api_tries(ann: Buyer) -> dict[str, Try]:
    """Every call of the API that changes something, and how it would succeed."""
    sale, other = a_sale(limit=9), a_sale(limit=9)
    bodies: dict[str, Any] = {
        "place_order": {"quantity": 1},
        "place_cart": {"lines": [{"sale": each.pk, "quantity": 1} for each in (sale, other)]},
        "pay_order": None,
        "cancel_order": {},
        "refund_order": {},
        "make_token": {"username": a_name(), "password": PASSWORD},
        "receive_webhook": {"id": "evt_1", "type": "something.else", "data": {}},
        "make_buyers": {"count": 1},
        "make_session": None,
        "make_sale": {"stock": 1},
        "restock_sale": {"units": 1},
        "change_terms": {"price": 1},
    }
    unpaid = {"pay_order": ann.order(a_sale()), "cancel_order": ann.order(a_sale())}
    tries = {}
    for path, view, operation, _ in routes(get_resolver().url_patterns):
        name = view.__name__
        if operation.method != "POST":
            continue
        body = b"" if bodies[name] is None else json.dumps(bodies[name]).encode()
        order = unpaid.get(name) or (paid_order(ann) if name == "refund_order" else 0)
        headers = [f"Authorization: Bearer {ann.token}", f"Idempotency-Key: {uuid4()}"]
        headers.append(f"PSP-Signature: {signed(body)}")
        written = path.replace("<int:sale>", str(sale.pk)).replace("<int:order>", str(order))
        tries[name] = Try(written, headers, body)
    return tries


def page_tries(ann: Buyer) -> dict[str, Try]:
    """Forms of the pages, as a script in the page would send them, and how they would succeed."""
    sale = a_sale(limit=9)
    paid, unpaid = paid_order(ann), [ann.order(a_sale()) for _ in range(2)]
    buys = {"key": str(uuid4()), "quantity": "1"}
    client = Client()
    client.force_login(ann.user)
    client.post(f"/cart/{sale.pk}/", {"quantity": "1"})
    forms: dict[str, dict[str, str]] = {
        f"/cart/{sale.pk}/": {"quantity": "2"},
        "/cart/": {"key": str(uuid4())},
        f"/sales/{sale.pk}/": buys,
        f"/orders/{unpaid[0]}/payment/": {},
        f"/orders/{unpaid[1]}/cancel/": {},
        f"/orders/{paid}/refund/": {},
        "/sign-up/": {"username": "new", "password1": PASSWORD, "password2": PASSWORD},
        "/sign-in/": {"username": a_name(), "password": PASSWORD},
        "/account/": {},
        "/language/": {"language": "zh-hans"},
        "/sign-out/": {},
    }
    csrf = _get_new_csrf_string()
    session = client.cookies[settings.SESSION_COOKIE_NAME].value
    headers = [
        f"Cookie: {settings.SESSION_COOKIE_NAME}={session}; {settings.CSRF_COOKIE_NAME}={csrf}",
        f"X-CSRFToken: {csrf}",
        "Content-Type: application/x-www-form-urlencoded",
    ]
    return {path: Try(path, headers, urlencode(form).encode()) for path, form in forms.items()}


@pytest.mark.parametrize("tries_of", [api_tries, page_tries])
def test_a_body_shorter_than_its_length_is_never_executed(tries_of, ann: Buyer, port: int) -> None:
    tries = tries_of(ann)
    before, executed = tables(), []
    for name, each in tries.items():
        for sent in each.truncated():
            answer = exchange(port, sent)
            if not answer.startswith(b"HTTP/1.1 400 "):
                executed.append((name, sent, answer))
    assert executed == []
    assert tables() == before
    for each in tries.values():
        answer = exchange(port, each.whole())
        assert answer.startswith(EXECUTED), answer
