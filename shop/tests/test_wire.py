"""Bytes on connections to a real web server: what it executes, and what it does not."""

from __future__ import annotations

import re
from uuid import uuid4

import pytest

from shop import payments
from shop.conftest import Buyer
from shop.orders.models import Order
from shop.tests import openapi
from shop.tests.catalogue import a_sale
from shop.tests.web import connect, exchange, read_all, request

pytestmark = pytest.mark.django_db(transaction=True)

QUANTITY = b'{"quantity": 1}'


def paid_order(buyer: Buyer, quantity: int = 1) -> Order:
    """A paid order of these units."""
    order = Order.objects.get(pk=buyer.order(a_sale(limit=quantity), quantity))
    return payments.pay(order)


def by(buyer: Buyer) -> str:
    return f"Authorization: Bearer {buyer.token}"


def test_the_beginning_of_a_refund_behind_a_call_refunds_nothing(ann: Buyer, port: int) -> None:
    order = paid_order(ann)
    reads = request("GET", f"/api/v1/orders/{order.pk}", by(ann))
    refunds = f"POST /api/v1/orders/{order.pk}/refund HTTP/1.1\r\n".encode()
    answers = exchange(port, reads + refunds)
    assert answers.startswith(b"HTTP/1.1 200 OK\r\n")
    assert answers.count(b"HTTP/1.1") == 1
    order.refresh_from_db()
    assert order.status == "paid"


def test_a_purchase_is_of_the_sale_that_it_names_and_not_of_the_next_requests(
    ann: Buyer, port: int
) -> None:
    wanted, other = a_sale(), a_sale()
    first, second = (
        request(
            *("POST", f"/api/v1/sales/{sale.pk}/orders", by(ann)),
            f"Idempotency-Key: {uuid4()}",
            body=QUANTITY,
        )
        for sale in (wanted, other)
    )
    answers = exchange(port, first + second[: second.index(b"\r\n") + 2])
    assert answers.startswith(b"HTTP/1.1 201 Created\r\n")
    assert [order.sale_id for order in Order.objects.all()] == [wanted.pk]


def test_a_value_of_a_header_is_not_executed(ann: Buyer, port: int) -> None:
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


def test_requests_in_one_packet_are_answered_in_their_order(ann: Buyer, port: int) -> None:
    orders = [paid_order(ann) for _ in range(3)]
    calls = [request("GET", f"/api/v1/orders/{order.pk}", by(ann)) for order in orders]
    answers = exchange(port, b"".join(calls))
    found = [answers.index(f'{{"id":{order.pk},'.encode()) for order in orders]
    assert found == sorted(found)
    assert answers.count(b"HTTP/1.1 200 OK") == 3


@pytest.mark.parametrize("path", ["/api/v1/sales/1", "/api/v1/nothing", "/sign-in/"])
@pytest.mark.parametrize("host", [b"", b"Host: evil.example\r\n", b"Host:\r\n"])
def test_a_host_that_is_missing_or_not_served_is_refused(path: str, host: bytes, port: int) -> None:
    asked = request("GET", path).replace(b"Host: 127.0.0.1\r\n", host)
    assert exchange(port, asked).startswith(b"HTTP/1.1 400 ")


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (request("GET", f"/api/v1/sales/1?a={'b' * 4100}"), 414),
        (request("GET", "/api/v1/sales/1", f"X-A: {'b' * 8200}"), 431),
        (request("GET", "/api/v1/sales/1", *["X-A: b"] * 101), 431),
        (request("GET", "/api/v1/sales/1", "no header"), 400),
    ],
)
def test_what_the_server_itself_refuses_is_documented(sent: bytes, status: int, port: int) -> None:
    head, _, _ = exchange(port, sent).partition(b"\r\n\r\n")
    assert head.startswith(f"HTTP/1.1 {status} ".encode())
    documented = openapi.described("/api/v1/sales/1")["get"]["responses"][str(status)]
    [line] = re.findall(rb"Content-Type: ([^;\r]+)", head)
    assert line.decode() in openapi.resolve(documented)["content"]
