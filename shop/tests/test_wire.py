"""Bytes on connections to a web server: what it executes, and how long it waits for them."""

from __future__ import annotations

import hashlib
import hmac
import re
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack
from typing import Any
from uuid import uuid4

import pytest
from django.apps import apps
from django.conf import settings
from django.middleware.csrf import _get_new_csrf_string
from django.test import Client

from shop import payments
from shop.conftest import Buyer
from shop.orders.models import Order
from shop.tests import openapi
from shop.tests.catalogue import a_sale
from shop.tests.processes import connect, exchange, read_all, request

pytestmark = pytest.mark.django_db(transaction=True)


def paid_order(buyer: Buyer) -> Order:
    return payments.pay(Order.objects.get(pk=buyer.order(a_sale())))


def by(buyer: Buyer) -> str:
    return f"Authorization: Bearer {buyer.token}"


def test_incomplete_pipelined_refund_refunds_nothing(ann: Buyer, port: int) -> None:
    order = paid_order(ann)
    reads = request("GET", f"/api/v1/orders/{order.pk}", by(ann))
    refunds = f"POST /api/v1/orders/{order.pk}/refund HTTP/1.1\r\n".encode()
    answers = exchange(port, reads + refunds)
    assert answers.startswith(b"HTTP/1.1 200 OK\r\n")
    assert answers.count(b"HTTP/1.1") == 1
    order.refresh_from_db()
    assert order.status == "paid"


def test_header_value_is_not_executed(ann: Buyer, port: int) -> None:
    order = paid_order(ann)
    reads = request("GET", f"/api/v1/orders/{order.pk}", by(ann))
    value = request("POST", f"/api/v1/orders/{order.pk}/refund", by(ann), "Connection: close")
    with connect(port) as client:
        client.sendall(reads + b"GET /api/v1/sales/1 HTTP/1.1\r\nX-Note: ")
        first = client.recv(65536)
        client.sendall(value)
        answers = first + read_all(client)
    assert answers.count(b"HTTP/1.1") == 2
    order.refresh_from_db()
    assert order.status == "paid"


MORE = 4
"""Bytes that a body's length promises and that never come."""


def truncated(path: str, headers: list[str], body: bytes) -> list[bytes]:
    """Write a request with a body that ends early, also where nothing seems to be missing."""
    length = len(body) + MORE
    bodies = dict.fromkeys((body, body[: len(body) // 2], b""))
    written = [request("POST", path, *headers, body=each, length=length) for each in bodies]
    # gunicorn reads a call with an unusual header.
    written += [each.replace(b"\r\n", b"\r\nX-A: 1\r\nX-A: 2\r\n", 1) for each in written]
    sized = f"Content-Length: {length}".encode()
    chunks = written[0].replace(sized, b"Transfer-Encoding: chunked").removesuffix(body)
    return [*written, chunks + (b"%x\r\n%s\r\n" % (len(body), body) if body else b"")]


def tables() -> dict[str, list[Any]]:
    return {
        model._meta.label: sorted(model._base_manager.values_list(), key=repr)
        for model in apps.get_models()
        if model._meta.managed
    }


def test_body_shorter_than_its_length_is_not_executed(
    ann: Buyer, client: Client, port: int
) -> None:
    """Not even where the whole body would be empty."""
    sale, orders = a_sale(limit=9), [ann.order(a_sale()) for _ in range(2)]
    client.force_login(ann.user)
    session, csrf = client.cookies["sessionid"].value, _get_new_csrf_string()
    of_page = [f"Cookie: sessionid={session}; csrftoken={csrf}", f"X-CSRFToken: {csrf}"]
    of_page.append("Content-Type: application/x-www-form-urlencoded")
    event, now = b'{"id": "evt_1", "type": "something.else", "data": {}}', str(int(time.time()))
    secret = settings.PSP_WEBHOOK_SECRET.encode()
    signature = hmac.new(secret, now.encode() + b"." + event, hashlib.sha256).hexdigest()
    tries = [
        (
            f"/api/v1/sales/{sale.pk}/orders",
            [by(ann), f"Idempotency-Key: {uuid4()}"],
            b'{"quantity": 1}',
        ),
        (f"/api/v1/orders/{orders[0]}/cancel", [by(ann)], b""),
        ("/api/v1/webhooks/psp", [f"PSP-Signature: t={now},v1={signature}"], event),
        (f"/sales/{sale.pk}/", of_page, f"key={uuid4()}&quantity=1".encode()),
        (f"/orders/{orders[1]}/cancel/", of_page, b""),
    ]
    before = tables()
    for path, headers, body in tries:
        for sent in truncated(path, headers, body):
            assert exchange(port, sent).startswith(b"HTTP/1.1 400 "), sent
    assert tables() == before
    for path, headers, body in tries:
        answer = exchange(port, request("POST", path, *headers, "Connection: close", body=body))
        assert answer.startswith((b"HTTP/1.1 20", b"HTTP/1.1 302")), answer


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (request("GET", f"/api/v1/sales/1?a={'b' * 4100}"), 414),
        (request("GET", "/api/v1/sales/1", f"X-A: {'b' * 8200}"), 431),
        (request("GET", "/api/v1/sales/1", *["X-A: b"] * 101), 431),
        (request("GET", "/api/v1/sales/1", "no header"), 400),
    ],
)
def test_refusals_of_the_server_itself_are_documented(sent: bytes, status: int, port: int) -> None:
    head, _, _ = exchange(port, sent).partition(b"\r\n\r\n")
    assert head.startswith(f"HTTP/1.1 {status} ".encode())
    documented = openapi.described("/api/v1/sales/1")["get"]["responses"][str(status)]
    [line] = re.findall(rb"Content-Type: ([^;\r]+)", head)
    assert line.decode() in openapi.resolve(documented)["content"]


LIMIT = 1
"""Seconds for a head, and for a body."""

CONNECTIONS = 20
"""That the server holds at a time."""

LONG = "X-A: " + "a" * 200
"""A header that takes 40 s at a byte every fifth of a second."""


Serve = Callable[..., AbstractContextManager[int]]


@pytest.fixture(scope="module")
def hasty_port(serve: Serve) -> Iterator[int]:
    """The port of a web server with a short limit for requests."""
    with serve(WEB_READ_TIMEOUT=str(LIMIT), WEB_CONNECTIONS=str(CONNECTIONS)) as found:
        yield found


def drip(client: socket.socket, data: bytes) -> int:
    """Send bytes one by one until the server closes the connection; return how many were sent."""
    client.settimeout(0.2)
    for number in range(len(data)):
        try:
            client.sendall(data[number : number + 1])
            if client.recv(65536) == b"":
                return number + 1
        except TimeoutError:
            continue
        except OSError:
            return number + 1
    return len(data)


CALL = request("GET", "/api/v1/sales/1", LONG)
PAGE = request("GET", "/healthz", LONG)
BEGINNINGS = {
    "nothing": b"",
    "half a call": CALL[:40],
    "half a page": PAGE[:40],
    "a call's body": request("POST", "/api/v1/tokens", body=b"{", length=20),
    "a page's body": request("POST", "/sign-in/", body=b"a", length=20),
    "chunks": request("POST", "/sign-in/", "Transfer-Encoding: chunked").replace(
        b"Content-Length: 0\r\n", b""
    ),
}


@pytest.mark.parametrize("sent", BEGINNINGS.values(), ids=BEGINNINGS)
def test_connection_with_a_stalled_request_is_closed(sent: bytes, hasty_port: int) -> None:
    with connect(hasty_port) as client:
        client.sendall(sent)
        assert b" 200 " not in read_all(client)


def test_half_open_connections_do_not_keep_others_out(hasty_port: int) -> None:
    with ExitStack() as opened:
        for _ in range(2 * CONNECTIONS):
            opened.enter_context(connect(hasty_port)).sendall(CALL[:40])
        assert exchange(hasty_port, request("GET", "/healthz")).startswith(b"HTTP/1.1 200 OK")


DRIPPED = {
    "a call's head": (b"", CALL),
    "a page's head": (b"", PAGE),
    "a call's body": (request("POST", "/api/v1/tokens", length=200), b" " * 200),
    "a page's body": (request("POST", "/sign-in/", length=200), b" " * 200),
}


@pytest.mark.parametrize(("first", "rest"), DRIPPED.values(), ids=DRIPPED)
def test_request_sent_byte_by_byte_is_not_waited_for(
    first: bytes, rest: bytes, hasty_port: int
) -> None:
    with connect(hasty_port) as client:
        client.sendall(first)
        assert drip(client, rest) < len(rest)


def test_purchase_that_comes_too_slowly_is_not_made(ann: Buyer, hasty_port: int) -> None:
    path, key = f"/api/v1/sales/{a_sale().pk}/orders", f"Idempotency-Key: {uuid4()}"
    with connect(hasty_port) as client:
        client.sendall(request("POST", path, by(ann), key, body=b'{"quantity": 1}')[:-1])
        assert read_all(client) == b""
    assert not Order.objects.exists()


@pytest.mark.parametrize("path", ["/api/v1/sales/1", "/healthz"])
def test_connection_may_be_idle_for_longer_between_requests(path: str, hasty_port: int) -> None:
    with connect(hasty_port) as client:
        for _ in range(2):
            client.sendall(request("GET", path))
            found = b""
            while not found.endswith((b"}", b"ok\n")):
                found += client.recv(65536)
            assert found.startswith(b"HTTP/1.1 ")
            time.sleep(2 * LIMIT)


@pytest.fixture(scope="module")
def impatient_port(serve: Serve) -> Iterator[int]:
    """The port of a web server with a short limit for idle connections and for answers."""
    with serve(GUNICORN_CMD_ARGS="--keep-alive 2") as found:
        yield found


@pytest.mark.long
@pytest.mark.parametrize("path", ["/api/v1/orders/1", "/healthz"])
def test_connection_that_is_idle_is_closed_in_the_end(path: str, impatient_port: int) -> None:
    with connect(impatient_port) as client:
        client.sendall(request("GET", path))
        assert read_all(client).count(b"HTTP/1.1 ") == 1


@pytest.mark.long
@pytest.mark.parametrize("path", ["/api/v1/orders/1", "/api/v1/openapi.json"])
def test_connection_of_a_client_that_does_not_read_is_closed(
    path: str, impatient_port: int
) -> None:
    # The client's own limit is longer than the server's.
    with (
        connect(impatient_port) as client,
        pytest.raises((BrokenPipeError, ConnectionResetError)),
    ):
        _send_forever(client, request("GET", path))


def _send_forever(client: socket.socket, data: bytes) -> None:
    while True:
        client.sendall(data)
