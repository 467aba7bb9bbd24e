"""A whole shop by HTTP: requests at the same moment, revoked tokens, and every documented call."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from uuid import uuid4

import psycopg
import pytest
import schemathesis

from lab import environment
from lab.stack.stack import Stack
from lab.tests.whole_shop import Client, ask, new_buyers, new_sale, whole_shop
from loadtest.framing import parse, request_bytes
from shop.tests.processes import wait_for

pytestmark = [pytest.mark.long, pytest.mark.timeout(300)]

MANY = 30
ROUNDS = 50
"""Most attempts of the negative control; the first usually oversells."""

Answer = tuple[int, dict[str, Any]]


@pytest.fixture(scope="module")
def shop() -> Iterator[Stack]:
    with whole_shop() as stack:
        yield stack


def purchase(sale: int, token: str) -> bytes:
    headers = {
        "Authorization": f"Bearer {token}",
        "Idempotency-Key": str(uuid4()),
        "Content-Type": "application/json",
    }
    path = f"/api/v1/sales/{sale}/orders"
    return request_bytes("POST", path, "127.0.0.1", headers=headers, body=b'{"quantity": 1}')


def at_once(shop: Stack, requests: Sequence[bytes]) -> list[Answer]:
    """Send all requests, each on a connection whose server already waits for the rest."""
    with ExitStack() as opened:
        sockets = []
        for request in requests:
            one = socket.create_connection(("127.0.0.1", shop.port), 60)
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


def shown(shop: Stack, sale: int) -> tuple[int, str]:
    """Return what a buyer sees of a sale: the units that are left, and its status."""
    seen = ask(shop.port, "GET", f"/api/v1/sales/{sale}").body
    return seen["available"], seen["status"]


def test_key_sent_thirty_times_at_once_is_one_order(shop):
    sale = new_sale(shop.port, stock=MANY, limit=MANY)
    [token] = new_buyers(shop.port, 1)
    answers = at_once(shop, [purchase(sale, token)] * MANY)
    assert kinds(answers) == {(201, ""): 1, (200, ""): MANY - 1}
    assert len({body["id"] for _, body in answers}) == 1
    assert shown(shop, sale) == (MANY - 1, "open")


def test_buyer_with_thirty_requests_at_once_gets_the_limit(shop):
    sale = new_sale(shop.port, stock=MANY, limit=1)
    [token] = new_buyers(shop.port, 1)
    answers = at_once(shop, [purchase(sale, token) for _ in range(MANY)])
    assert kinds(answers) == {(201, ""): 1, (409, "limit_reached"): MANY - 1}
    assert shown(shop, sale) == (MANY - 1, "open")


def test_last_unit_goes_to_one_of_thirty_buyers(shop):
    sale = new_sale(shop.port, stock=1)
    answers = at_once(shop, [purchase(sale, token) for token in new_buyers(shop.port, MANY)])
    assert kinds(answers) == {(201, ""): 1, (409, "sold_out"): MANY - 1}
    assert shown(shop, sale) == (0, "sold_out")


def test_naive_strategy_sells_the_last_unit_twice_over_http(shop):
    tokens = new_buyers(shop.port, MANY)
    for _ in range(ROUNDS):
        sale = new_sale(shop.port, stock=1, strategy="naive")
        sold = kinds(at_once(shop, [purchase(sale, token) for token in tokens]))[201, ""]
        if sold > 1:
            return
    pytest.fail(f"nothing was oversold in {ROUNDS} rounds: the requests do not meet")


BOTH = 30
"""Requests of which each of the two web processes surely gets some."""


def test_revoked_token_is_refused_soon_by_every_process(shop):
    stays, leaves = Client(shop.port), [Client(shop.port) for _ in range(BOTH)]
    revoked, good = new_buyers(shop.port, 2)
    sale = new_sale(shop.port, stock=100_000, limit=100_000)
    assert {leaf.buy(sale, revoked).status for leaf in leaves} == {201}
    with psycopg.connect(shop.urls.database) as console:
        user = revoked.partition(".")[0]
        console.execute("UPDATE accounts_user SET is_active = false WHERE id = %s", [user])

    def is_refused_everywhere() -> bool:
        assert stays.buy(sale, good).status == 201
        return {leaf.buy(sale, revoked).status for leaf in leaves} == {401}

    wait_for(is_refused_everywhere, 120)
    for each in (stays, *leaves):
        each.close()


SECONDS = 40
"""Time limit of Schemathesis; the next run tries other cases."""

EXAMPLES = 20
"""Examples per operation and phase."""

SEED = 7


@pytest.mark.timeout(500)
def test_openapi_document_and_api_agree(shop, tmp_path):
    command = [
        str(Path(sys.executable).with_name("schemathesis")),
        "run",
        f"{shop.url}/api/v1/openapi.json",
        "--header",
        f"Authorization: Bearer {new_buyers(shop.port, 1)[0]}",
        "--checks",
        "all",
        "--exclude-checks",
        "positive_data_acceptance",
        "--max-examples",
        str(EXAMPLES),
        "--max-time",
        str(SECONDS),
        "--seed",
        str(SEED),
        "--request-timeout",
        "30",
        "--no-color",
    ]
    given = {**os.environ, "SCHEMATHESIS_HOOKS": __file__, "COLUMNS": "100"}
    given["PYTHONPATH"] = str(environment.PROJECT)
    # In a separate folder, because it leaves files there.
    run = subprocess.run(
        command, cwd=tmp_path, env=given, capture_output=True, text=True, timeout=400
    )
    print(run.stdout, run.stderr)
    assert run.returncode == 0
    # All operations, the links between them, and generated sequences.
    assert "Tested: 24" in run.stdout


PARTS = ("cancelOrder", "refundOrder")


@schemathesis.check
def refused_only_by_state(context: Any, response: Any, case: Any) -> None:
    """Fail if a request that the document allows is refused as invalid."""
    if case.meta is None or not case.meta.generation.mode.is_positive:
        return
    if response.status_code not in {400, 405, 413, 415, 422}:
        return
    code = json.loads(response.content).get("code")
    name = case.operation.definition.raw["operationId"]
    assert may_be_refused(code, name, case), f"{name}: allowed but refused with {code}"


def may_be_refused(code: str, name: str, case: Any) -> bool:
    """Return whether a code describes a state that no schema can express."""
    if code == "idempotency_key_reused":
        return True
    if code == "idempotency_key_missing":
        return name in PARTS and "Idempotency-Key" not in (case.headers or {})
    if code == "invalid_quantity":
        return name in PARTS  # more than is left of the order
    if code == "invalid_cart":
        sales = [line["sale"] for line in case.body["lines"]]
        return len(set(sales)) < len(sales)
    if code == "invalid_request":
        # A window that would end before it begins; an address without letters.
        return name in {"changeTerms", "enterDraw"}
    return False
