"""Measure the strategies one after the other, in the same two shops."""

from __future__ import annotations

import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from random import Random
from typing import Any

import urllib3
from django.db import connection

from inventory.audit import audit
from inventory.models import Item
from lab.bench.run import purchases
from lab.bench.targets import BUYERS
from lab.proof.load_profile import LoadProfile
from lab.proof.plan import Plan
from lab.proof.run import Proof
from lab.proof.testbed import Testbed
from lab.stack.errors import StackError
from lab.strategies import CLASSES
from lab.strategies.choice import open_sale
from loadtest import bench_client
from loadtest.faults.redis import RedisPaused
from shop.catalogue.models import Sale

ENOUGH = 1_000_000
"""Units and limit per buyer that do not end a measurement."""

ANSWER_TIMEOUT = 15.0
"""Seconds to wait for the last answers."""

LOOK = 0.05
"""Seconds between looks at the stock."""


@dataclass(frozen=True, slots=True)
class SellThrough:
    """A sale under load without faults.

    Attributes:
        stock: units.
        sold: accepted purchases.
        seconds: until the sale was sold out, or the time was up.
        rate: accepted purchases per second.
        refused: other answers: sold out, at the end, and busy.
        left: units still available afterwards.
        oversold: units, by the audit.
        problems: number of the audit's findings.
    """

    stock: int
    sold: int
    seconds: float
    rate: float
    p50_ms: float
    p99_ms: float
    refused: int
    left: int
    oversold: int
    problems: int


@dataclass(frozen=True, slots=True)
class WithoutRedis:
    """A measurement while Redis is stopped: accepted purchases per second, and other answers."""

    rate: float
    refused: int


@dataclass(frozen=True, slots=True)
class Scale:
    """Durations and sizes.

    Attributes:
        stock: units to sell.
        connections: of the load.
        most_seconds: limit for a strategy that does not sell them all.
        redis_away: seconds while Redis is stopped.
        buyers: per proof.
        faults: of a proof, each injected once.
        seed: of the proofs.
    """

    stock: int
    connections: int
    most_seconds: float
    redis_away: float
    buyers: int
    faults: tuple[str, ...]
    seed: int


def tokens_of(testbed: Testbed) -> list[str]:
    """Return buyers' tokens of a shop. Each shop has its own secrets, so ask that shop."""
    url = f"{testbed.url}/api/v1/demo/buyers"
    answer = urllib3.request("POST", url, json={"count": BUYERS}, timeout=60, retries=False)
    tokens: list[str] = answer.json()["tokens"]
    return tokens


def let_follow_up_rest(testbed: Testbed) -> None:
    """Stop Celery: otherwise the previous strategy's mail would skew the figures."""
    assert testbed.stack is not None
    for name in ("beat", "celery"):
        testbed.stack.supervisor.stop_program(name)


def sell_through(testbed: Testbed, name: str, scale: Scale, tokens: Sequence[str]) -> SellThrough:
    """Buy until the sale is sold out or the time is up."""
    sale = _sale(name, scale.stock)
    with _until_sold_out(sale) as over:
        load = bench_client.run(
            "127.0.0.1",
            _port(testbed),
            over.requests(tokens),
            connections=scale.connections,
            seconds=scale.most_seconds,
            timeout=ANSWER_TIMEOUT,
        )
    summary, sold = load.summary(), load.statuses.get(201, 0)
    # Purchases accepted during the wait for the last answers count, and so does that time.
    seconds = over.seconds or load.seconds
    books = audit([sale.item_id])
    return SellThrough(
        stock=scale.stock,
        sold=sold,
        seconds=round(seconds, 2),
        rate=round(sold / seconds, 1),
        p50_ms=summary["p50_ms"],
        p99_ms=summary["p99_ms"],
        refused=sum(load.statuses.values()) - sold + load.errors,
        left=books.items[0].available,
        oversold=books.items[0].oversold,
        problems=len(books.problems),
    )


def without_redis(testbed: Testbed, name: str, scale: Scale, tokens: Sequence[str]) -> WithoutRedis:
    """Measure purchases while Redis is stopped."""
    if testbed.target is None:
        raise StackError("faults cannot be injected here")
    sale = _sale(name, ENOUGH)
    fault = RedisPaused(testbed.target, Random(0))
    try:
        fault.inject()
        load = bench_client.run(
            "127.0.0.1",
            _port(testbed),
            purchases([sale.pk], tokens),
            connections=scale.connections,
            seconds=scale.redis_away,
            timeout=ANSWER_TIMEOUT,
        )
    finally:
        fault.heal()
    sold = load.statuses.get(201, 0)
    refused = sum(load.statuses.values()) - sold + load.errors
    return WithoutRedis(round(sold / load.seconds, 1), refused)


def prove(testbed: Testbed, name: str, scale: Scale) -> dict[str, Any]:
    """Return a proof as `prove --json` writes it: under faults if the strategy is safe."""
    faults = scale.faults if CLASSES[name].safe else ()
    profile = LoadProfile(scale.buyers, "rush", scale.seed, stays=bool(faults))
    plan = Plan(profile, max(scale.buyers // 2, 1), limit=1, strategy=name, faults=faults)
    with tempfile.TemporaryDirectory(prefix="compare-") as folder:
        proof = Proof(plan, testbed, Path(folder), lambda progress: None)
        proof.run()
    return proof.result.to_json(plan)


@dataclass(frozen=True, slots=True)
class Compared:
    """All measurements of a strategy."""

    name: str
    sold: SellThrough
    redis_away: WithoutRedis
    proof: dict[str, Any]

    def to_json(self) -> dict[str, Any]:
        """Return the strategy as `compare --json` writes it."""
        kind = CLASSES[self.name]
        return {
            "name": self.name,
            "summary": kind.summary,
            "safe": kind.safe,
            "fenced": kind.fenced,
            "sell_through": asdict(self.sold),
            "redis_away": asdict(self.redis_away),
            "proof": self.proof,
        }


def _sale(name: str, stock: int) -> Sale:
    return open_sale(stock=stock, price=99_900, limit=ENOUGH, strategy=name)


def _port(testbed: Testbed) -> int:
    if testbed.stack is None:
        raise StackError("the comparison starts its own shop")
    return testbed.stack.port


class _Watch:
    """Watches the stock during the load, and ends the load when the sale is sold out."""

    def __init__(self, sale: Sale) -> None:
        self._sale = sale
        self._ended = threading.Event()
        self._started = time.monotonic()
        self.seconds = 0.0

    def requests(self, tokens: Sequence[str]) -> Iterator[bytes]:
        """Yield purchases until the sale is sold out."""
        self._started = time.monotonic()
        for request in purchases([self._sale.pk], tokens):
            if self._ended.is_set():
                return
            yield request

    def look(self, is_over: Callable[[], bool]) -> None:
        """Watch until the sale is sold out or the load has ended."""
        item = Item.objects.filter(pk=self._sale.item_id).values_list("available", flat=True)
        try:
            while not is_over():
                if item.get() == 0:
                    self.seconds = time.monotonic() - self._started
                    self._ended.set()
                    return
                time.sleep(LOOK)
        finally:
            connection.close()


@contextmanager
def _until_sold_out(sale: Sale) -> Iterator[_Watch]:
    watch, over = _Watch(sale), threading.Event()
    thread = threading.Thread(target=watch.look, args=(over.is_set,))
    thread.start()
    try:
        yield watch
    finally:
        over.set()
        thread.join()
