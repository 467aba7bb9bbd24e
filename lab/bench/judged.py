"""Every strategy in the same two shops: its rate, its rate without Redis, and its verdict."""

from __future__ import annotations

import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from random import Random
from typing import Any

import urllib3
from django.db import connection

from development.errors import StackError
from inventory.audit import audit
from inventory.models import Item
from lab.bench.report import Benchmark, Document, interleaved
from lab.bench.run import purchases
from lab.bench.targets import BUYERS
from lab.proof import testbed as testbeds
from lab.proof.load_profile import LoadProfile
from lab.proof.plan import Plan
from lab.proof.run import Proof
from lab.proof.testbed import Testbed
from lab.strategies import CLASSES, DEFAULT
from lab.strategies.choice import open_sale
from loadtest import bench_client, open_files
from loadtest.chart import Panel
from loadtest.faults.redis import RedisPaused
from shop.catalogue.models import Sale

ENOUGH = 1_000_000
"""Units and limit per buyer that do not end a measurement."""

ANSWER_TIMEOUT = 15.0
"""Seconds to wait for the last answers."""

REDIS_AWAY = 4.0
"""Seconds for which Redis is silent: it accepts connections and never replies."""

LOOK = 0.05
"""Seconds between looks at the stock."""


@dataclass(frozen=True, slots=True)
class SellThrough:
    """A sale under load without faults.

    Attributes:
        rate: accepted purchases per second, until the sale was sold out or the time was up.
        p99_ms: of all answers.
        sold: accepted purchases.
        left: units still available afterwards.
        oversold: units, by the audit.
    """

    rate: float
    p99_ms: float
    sold: int
    left: int
    oversold: int


@dataclass(frozen=True, slots=True)
class Scale:
    """Durations and sizes.

    Attributes:
        stock: units to sell.
        connections: of the load.
        seconds: limit for a strategy that does not sell them all.
        buyers: per proof.
        faults: of a proof, each injected once.
        seed: of the proofs.
    """

    stock: int
    connections: int
    seconds: float
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
            seconds=scale.seconds,
            timeout=ANSWER_TIMEOUT,
        )
    sold = load.statuses.get(201, 0)
    # Purchases accepted during the wait for the last answers count, and so does that time.
    seconds = over.seconds or load.seconds
    books = audit([sale.item_id])
    return SellThrough(
        rate=round(sold / seconds, 1),
        p99_ms=load.summary()["p99_ms"],
        sold=sold,
        left=books.items[0].available,
        oversold=books.items[0].oversold,
    )


def without_redis(testbed: Testbed, name: str, scale: Scale, tokens: Sequence[str]) -> float:
    """Return the purchases accepted per second while Redis is stopped."""
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
            seconds=REDIS_AWAY,
            timeout=ANSWER_TIMEOUT,
        )
    finally:
        fault.heal()
    return round(load.statuses.get(201, 0) / load.seconds, 1)


def prove(testbed: Testbed, name: str, scale: Scale) -> Mapping[str, Any]:
    """Return a proof as `prove --json` writes it: under faults if the strategy is safe."""
    faults = scale.faults if CLASSES[name].safe else ()
    profile = LoadProfile(scale.buyers, "rush", scale.seed, stays=bool(faults))
    plan = Plan(profile, max(scale.buyers // 2, 1), limit=1, strategy=name, faults=faults)
    with tempfile.TemporaryDirectory(prefix="judged-") as folder:
        proof = Proof(plan, testbed, Path(folder), lambda progress: None)
        proof.run()
    return proof.result.to_json(plan)


def row(name: str, sold: SellThrough, away: float, proof: Mapping[str, Any]) -> dict[str, Any]:
    """Return a strategy's figures and verdict."""
    judged = {each["id"]: each["verdict"] for each in proof["properties"]}
    return {
        "name": name,
        **asdict(sold),
        # A slow strategy's sell-through ends before its stock, so that nothing can be oversold.
        "oversold": max(sold.oversold, proof["counts"].get("oversold", 0)),
        "without_redis": away,
        "verdict": proof["verdict"],
        "broken": [name for name, verdict in judged.items() if verdict == "fail"],
    }


def compare(
    names: Sequence[str], scale: Scale, tell: Callable[[str], None]
) -> list[dict[str, Any]]:
    """Measure all rates in a shop without failpoints; then run the measurements with faults."""
    open_files.raise_limit()
    with testbeds.plain() as where:
        let_follow_up_rest(where)
        tokens = tokens_of(where)
        sold = interleaved(names, 1, lambda name: sell_through(where, name, scale, tokens), tell)
    rows = []
    with testbeds.breakable(scale.faults) as where:
        tokens = tokens_of(where)
        for name in names:
            tell(f"{name}: without Redis …")
            away = without_redis(where, name, scale, tokens)
            tell(f"{name}: {', '.join(scale.faults)} …")
            rows.append(row(name, sold[name][0], away, prove(where, name, scale)))
    return rows


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


PROVED = {"pass": "proved", "fail": "**broken**", "unknown": "not judged"}


def table(document: Document) -> Iterator[Sequence[str]]:
    """Yield the headings and the strategies; a rate is a share of the default's, the first."""
    yield "Strategy", "Rate", "p99 ms", "Without Redis", "Verdict", "Oversold"
    first = document["rows"][0]
    for each in document["rows"]:
        broken = f" ({', '.join(each['broken'])})" if each["broken"] else ""
        yield (
            f"`{each['name']}`",
            f"{each['rate'] / first['rate']:.2f}",
            f"{each['p99_ms']:,.0f}",
            "sells" if each["without_redis"] >= 1 else "refuses",
            PROVED[each["verdict"]] + broken,
            f"**{each['oversold']}**" if each["oversold"] else "0",
        )


def _panels(document: Document) -> list[Panel]:
    def of(figure: str) -> list[tuple[str, float]]:
        return [(each["name"], float(each[figure])) for each in document["rows"]]

    first = document["rows"][0]["rate"]
    shares = [(name, rate / first) for name, rate in of("rate")]
    return [
        Panel("Purchases accepted", "of the default; longer is better", shares, "{:.2f}".format),
        Panel("Slowest of 100 (p99)", "ms; shorter is better", of("p99_ms"), "{:,.0f} ms".format),
        Panel(
            "While Redis is silent",
            "purchases per second; longer is better",
            of("without_redis"),
            "{:,.0f}".format,
        ),
        Panel("Oversold in a rush", "units; 0 is correct", of("oversold"), "{:,.0f}".format),
    ]


def _kinds(document: Document) -> dict[str, str]:
    unsafe = {name: "bad" for name, kind in CLASSES.items() if not kind.safe}
    return {**unsafe, DEFAULT: "ours"}


def _notes(document: Document) -> Iterator[str]:
    yield "Rate: accepted purchases per second, divided by the default's in this run."


STRATEGIES = Benchmark("strategies", "Selling strategies, compared", table, _panels, _kinds, _notes)
