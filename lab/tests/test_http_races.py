"""Thirty requests that a real server receives at the same moment."""

from __future__ import annotations

import json
import socket
from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any
from urllib.parse import urlsplit
from uuid import uuid4

import pytest
import urllib3

from loadtest.framing import parse, request_bytes

pytestmark = [pytest.mark.long, pytest.mark.timeout(300)]

MANY = 30
ROUNDS = 50
"""Most attempts of the negative control; the first usually oversells."""

Answer = tuple[int, dict[str, Any]]


def call(shop: str, method: str, path: str, body: object = None) -> Any:
    answer = urllib3.request(method, f"{shop}/api/v1/{path}", json=body, timeout=30)
    assert answer.status < 300, answer.data
    return answer.json()


def new_sale(shop: str, stock: int, limit: int = 1, strategy: str = "combining") -> int:
    wanted = {"stock": stock, "limit": limit, "price": 100, "strategy": strategy}
    sale: int = call(shop, "POST", "demo/sales", wanted)["sale"]
    return sale


def buyers(shop: str, count: int) -> list[str]:
    tokens: list[str] = call(shop, "POST", "demo/buyers", {"count": count})["tokens"]
    return tokens


def purchase(sale: int, token: str, key: str = "") -> bytes:
    headers = {
        "Authorization": f"Bearer {token}",
        "Idempotency-Key": key or str(uuid4()),
        "Content-Type": "application/json",
    }
    path = f"/api/v1/sales/{sale}/orders"
    return request_bytes("POST", path, "127.0.0.1", headers=headers, body=b'{"quantity": 1}')


def at_once(shop: str, requests: Sequence[bytes]) -> list[Answer]:
    """Send all requests, each on a connection whose server already waits for the rest."""
    address = urlsplit(shop)
    assert address.hostname
    assert address.port
    with ExitStack() as opened:
        sockets = []
        for request in requests:
            one = socket.create_connection((address.hostname, address.port), 60)
            sockets.append(opened.enter_context(one))
            one.sendall(request[:-1])
        for one, request in zip(sockets, requests, strict=True):
            one.sendall(request[-1:])
        return [_answer(one) for one in sockets]


def _answer(one: socket.socket) -> Answer:
    data = b""
    while (found := parse(data)) is None:
        part = one.recv(65536)
        assert part, f"the server closed the connection after {data!r}"
        data += part
    return found.status, json.loads(found.body)


def kinds(answers: Sequence[Answer]) -> Counter[tuple[int, str]]:
    return Counter((status, body.get("code", "")) for status, body in answers)


def snapshot(shop: str, sale: int) -> tuple[int, str]:
    shown = call(shop, "GET", f"sales/{sale}")
    return shown["available"], shown["status"]


def test_one_key_thirty_times_is_one_order(shop):
    sale = new_sale(shop, stock=MANY, limit=MANY)
    [token] = buyers(shop, 1)
    answers = at_once(shop, [purchase(sale, token, key=str(uuid4()))] * MANY)
    assert kinds(answers) == {(201, ""): 1, (200, ""): MANY - 1}
    assert len({body["id"] for _, body in answers}) == 1
    assert snapshot(shop, sale) == (MANY - 1, "open")


def test_one_buyer_thirty_times_gets_the_limit(shop):
    sale = new_sale(shop, stock=MANY, limit=1)
    [token] = buyers(shop, 1)
    answers = at_once(shop, [purchase(sale, token) for _ in range(MANY)])
    assert kinds(answers) == {(201, ""): 1, (409, "limit_reached"): MANY - 1}
    assert snapshot(shop, sale) == (MANY - 1, "open")


def test_the_last_unit_goes_to_one_of_thirty(shop):
    sale = new_sale(shop, stock=1)
    answers = at_once(shop, [purchase(sale, token) for token in buyers(shop, MANY)])
    assert kinds(answers) == {(201, ""): 1, (409, "sold_out"): MANY - 1}
    assert snapshot(shop, sale) == (0, "sold_out")


def test_the_requests_do_race_for_read_check_write_sells_the_last_unit_twice(shop):
    tokens = buyers(shop, MANY)
    for _ in range(ROUNDS):
        sale = new_sale(shop, stock=1, strategy="naive")
        sold = kinds(at_once(shop, [purchase(sale, token) for token in tokens]))[201, ""]
        if sold > 1:
            return
    pytest.fail(f"nothing was oversold in {ROUNDS} rounds: the requests do not meet")
