"""A thousand readers beside buyers, on a real server: how much longer a purchase takes."""

from __future__ import annotations

import multiprocessing
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import repeat
from multiprocessing.connection import Connection
from statistics import median
from typing import Any
from urllib.parse import urlsplit
from uuid import uuid4

import pytest
import urllib3

from loadtest import bench_client, open_files
from loadtest.framing import request_bytes

pytestmark = [pytest.mark.long, pytest.mark.timeout(300)]

READERS, BUYERS = 1_000, 20
ROUNDS, SECONDS = 3, 3.0

MAX_RATIO = 10
"""Two or three on a machine with nothing else to do. Before readers had their turns and a share of
the connections, it was between 90 and 300."""


def call(shop: str, path: str, body: object) -> Any:
    answer = urllib3.request("POST", f"{shop}/api/v1/{path}", json=body, timeout=60)
    assert answer.status < 300, answer.data
    return answer.json()


def requests_of(sale: int, tokens: list[str]) -> Iterator[bytes]:
    """Purchases of one unit, by all buyers in turn, forever."""
    while True:
        for token in tokens:
            headers = {"Authorization": f"Bearer {token}", "Idempotency-Key": str(uuid4())}
            path = f"/api/v1/sales/{sale}/orders"
            yield request_bytes("POST", path, "127.0.0.1", headers=headers, body=b'{"quantity":1}')


def read(port: int, sale: int, parent: Connection) -> None:
    """Look at a sale on all connections until the parent says stop; tell it what came of that."""
    open_files.raise_limit()
    request = request_bytes("GET", f"/api/v1/sales/{sale}", "127.0.0.1")

    def requests() -> Iterator[bytes]:
        # To open so many connections at the same moment takes longer than what is measured.
        yield from repeat(request, 2 * READERS)
        parent.send("reading")
        while not parent.poll():
            yield request

    load = bench_client.run("127.0.0.1", port, requests(), connections=READERS, timeout=60)
    parent.send((load.statuses, load.errors))


@contextmanager
def readers(port: int, sale: int) -> Iterator[None]:
    """Let a thousand readers look at a sale, each again as soon as it is answered."""
    spawning = multiprocessing.get_context("spawn")
    ours, theirs = spawning.Pipe()
    process = spawning.Process(target=read, args=(port, sale, theirs), daemon=True)
    process.start()
    try:
        assert ours.poll(120)
        assert ours.recv() == "reading"
        yield
        ours.send("stop")
        assert ours.poll(60)
        statuses, errors = ours.recv()
        assert (list(statuses), errors) == ([200], 0)
        assert statuses[200] > READERS
    finally:
        process.terminate()
        process.join()


def test_a_thousand_readers_let_a_purchase_take_a_few_times_as_long(shop: str) -> None:
    port = urlsplit(shop).port
    assert port is not None
    tokens = call(shop, "demo/buyers", {"count": 500})["tokens"]
    sale = call(shop, "demo/sales", {"stock": 10**6, "limit": 10**6, "price": 100})["sale"]

    def buy() -> float:
        """Return the median of what purchases take, in milliseconds."""
        purchases = requests_of(sale, tokens)
        load = bench_client.run(
            "127.0.0.1", port, purchases, connections=BUYERS, seconds=SECONDS, timeout=60
        )
        assert (list(load.statuses), load.errors) == ([201], 0)
        return float(load.summary()["p50_ms"])

    buy()
    alone, beside = [], []
    for _ in range(ROUNDS):
        alone.append(buy())
        with readers(port, sale):
            beside.append(buy())
    print("alone", alone, "beside readers", beside)
    assert median(beside) <= MAX_RATIO * median(alone)
