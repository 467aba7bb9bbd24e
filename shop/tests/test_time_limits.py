"""Clients that are slow, or silent, do not keep their connections."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack

import pytest
from pytest_django import DjangoDbBlocker

from shop.conftest import Buyer
from shop.orders.models import Order
from shop.tests.catalogue import a_sale
from shop.tests.web import connect, exchange, read_all, request, web_server

pytestmark = pytest.mark.django_db(transaction=True)

LIMIT = 1
"""Seconds for a head, and for a body."""

CONNECTIONS = 20
"""That the server holds at a time."""

LONG = "X-A: " + "a" * 200
"""A header that takes 40 s at a byte every fifth of a second."""


@pytest.fixture(scope="module")
def port(
    tmp_path_factory: pytest.TempPathFactory,
    django_db_setup: None,
    django_db_blocker: DjangoDbBlocker,
) -> Iterator[int]:
    """The port of a web server with a short limit for requests."""
    log = tmp_path_factory.mktemp("web") / "log"
    settings = {"WEB_READ_TIMEOUT": str(LIMIT), "WEB_CONNECTIONS": str(CONNECTIONS)}
    with django_db_blocker.unblock(), web_server(log, **settings) as found:
        yield found
    assert "Traceback" not in log.read_text()


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
def test_a_connection_whose_request_does_not_go_on_is_closed(sent: bytes, port: int) -> None:
    with connect(port) as client:
        client.sendall(sent)
        assert b" 200 " not in read_all(client)


def test_half_open_connections_do_not_keep_others_out(port: int) -> None:
    with ExitStack() as opened:
        for _ in range(2 * CONNECTIONS):
            opened.enter_context(connect(port)).sendall(CALL[:40])
        assert exchange(port, request("GET", "/healthz")).startswith(b"HTTP/1.1 200 OK")


@pytest.mark.parametrize("head", [CALL, PAGE], ids=["call", "page"])
def test_a_head_that_comes_byte_by_byte_is_not_waited_for(head: bytes, port: int) -> None:
    with connect(port) as client:
        assert drip(client, head) < len(head)


@pytest.mark.parametrize("path", ["/api/v1/tokens", "/sign-in/"])
def test_a_body_that_comes_byte_by_byte_is_not_waited_for(path: str, port: int) -> None:
    with connect(port) as client:
        client.sendall(request("POST", path, length=200))
        assert drip(client, b" " * 200) < 200


def test_a_purchase_that_comes_too_slowly_is_not_made(ann: Buyer, port: int) -> None:
    sale = a_sale()
    key = "Idempotency-Key: 0b5481f0-2c1e-4d5a-9f3b-6a7c8d9e0f12"
    token = f"Authorization: Bearer {ann.token}"
    path, body = f"/api/v1/sales/{sale.pk}/orders", b'{"quantity": 1}'
    with connect(port) as client:
        client.sendall(request("POST", path, token, key, body=body)[:-1])
        assert read_all(client) == b""
    assert not Order.objects.exists()


@pytest.mark.parametrize("path", ["/api/v1/sales/1", "/healthz"])
def test_a_connection_may_be_idle_for_longer_between_requests(path: str, port: int) -> None:
    with connect(port) as client:
        for _ in range(2):
            client.sendall(request("GET", path))
            found = b""
            while not found.endswith((b"}", b"ok\n")):
                found += client.recv(65536)
            assert found.startswith(b"HTTP/1.1 ")
            time.sleep(2 * LIMIT)


@pytest.fixture(scope="module")
def impatient_port(
    tmp_path_factory: pytest.TempPathFactory,
    django_db_setup: None,
    django_db_blocker: DjangoDbBlocker,
) -> Iterator[int]:
    """The port of a web server with a short limit for idle connections and for answers."""
    log = tmp_path_factory.mktemp("web") / "log"
    settings = {"GUNICORN_CMD_ARGS": "--keep-alive 2"}
    with django_db_blocker.unblock(), web_server(log, **settings) as found:
        yield found
    assert "Traceback" not in log.read_text()


@pytest.mark.long
@pytest.mark.parametrize("path", ["/api/v1/orders/1", "/healthz"])
def test_an_idle_connection_is_closed_in_the_end(path: str, impatient_port: int) -> None:
    with connect(impatient_port) as client:
        client.sendall(request("GET", path))
        assert read_all(client).count(b"HTTP/1.1 ") == 1


@pytest.mark.long
@pytest.mark.parametrize("path", ["/api/v1/orders/1", "/api/v1/openapi.json"])
def test_a_client_that_does_not_read_its_answers_is_left(path: str, impatient_port: int) -> None:
    # The client's own limit is longer than the server's.
    with (
        connect(impatient_port) as client,
        pytest.raises((BrokenPipeError, ConnectionResetError)),
    ):
        _send_forever(client, request("GET", path))


def _send_forever(client: socket.socket, data: bytes) -> None:
    while True:
        client.sendall(data)
