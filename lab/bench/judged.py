"""Every strategy with its rate, its rate while Redis is silent, and its verdict."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from random import Random
from typing import Any

import urllib3

from development.embedded import ServerUrls
from lab.bench import client, targets
from lab.bench.report import Benchmark, Document
from lab.bench.rows import ENOUGH_STOCK, Row, Server
from lab.bench.run import Bench, purchases
from lab.proof import testbed as testbeds
from lab.proof.control_run import execute
from lab.proof.controls import EMPTY
from lab.proof.run import Proof
from lab.proof.testbed import Testbed
from lab.strategies import CLASSES
from lab.strategies.choice import open_sale
from loadtest.faults.redis import RedisPaused
from loadtest.steps import RunPlan

ANSWER_TIMEOUT = 15.0
"""Seconds to wait for the last answers."""

REDIS_AWAY = 4.0
"""Seconds for which Redis is silent: it accepts connections and never replies."""


FAULTS = (
    *("web-killed-before-commit", "web-killed-after-commit", "redis-killed"),
    *("postgres-killed", "commit-lost"),
)
"""Of a proof, each injected once: they kill each server that a purchase needs, and web workers at
the most critical points."""

BUYERS, SEED = 300, 7
"""Of a proof."""


def compare(
    names: Sequence[str], connections: int, seconds: float, tell: Callable[[str], None]
) -> list[dict[str, Any]]:
    """Measure all rates in a shop without failpoints; then run the measurements with faults.

    Args:
        names: of the strategies.
        connections: of the load.
        seconds: for which each strategy sells.
        tell: called with progress messages.
    """
    cases = [Row(name, connections, strategy=name) for name in names]
    with ExitStack() as cleanup:
        started = targets.start([Server()], ServerUrls.of_environment(), cleanup, tell)
        measured = Bench(started, seconds).run(cases, 1, tell)
    sold = {each.row.name: each.to_json() for each in measured}
    rows = []
    with testbeds.started(FAULTS) as where:
        tokens = tokens_of(where)
        for name in names:
            tell(f"{name}: without Redis …")
            away = without_redis(where, name, connections, tokens)
            tell(f"{name}: {', '.join(FAULTS)} …")
            rows.append(row(sold[name], away, prove(where, name)))
    return rows


def tokens_of(testbed: Testbed) -> list[str]:
    """Return buyers' tokens of a shop. Each shop has its own secrets, so ask that shop."""
    url = f"{testbed.url}/api/v1/demo/buyers"
    answer = urllib3.request("POST", url, json={"count": targets.BUYERS}, timeout=60, retries=False)
    tokens: list[str] = answer.json()["tokens"]
    return tokens


def without_redis(testbed: Testbed, name: str, connections: int, tokens: Sequence[str]) -> float:
    """Return the purchases accepted per second while Redis is stopped."""
    assert testbed.target is not None
    assert testbed.stack is not None
    sale = open_sale(stock=ENOUGH_STOCK, price=targets.PRICE, limit=targets.LIMIT, strategy=name)
    fault = RedisPaused(testbed.target, Random(0))
    try:
        fault.inject()
        load = client.run(
            "127.0.0.1",
            testbed.stack.port,
            purchases([sale.pk], tokens),
            connections=connections,
            seconds=REDIS_AWAY,
            timeout=ANSWER_TIMEOUT,
        )
    finally:
        fault.heal()
    return round(load.statuses[201] / load.seconds, 1)


def prove(testbed: Testbed, name: str) -> Mapping[str, Any]:
    """Return a proof as `prove --json` writes it: under faults if the strategy is safe."""
    faults = FAULTS if CLASSES[name].safe else ()
    plan = RunPlan(buyers=BUYERS, seed=SEED, stock=BUYERS // 2, strategy=name, faults=faults)
    # A shop that still sends the mails of a benchmark is late with those of the proof.
    execute(EMPTY)
    with tempfile.TemporaryDirectory(prefix="judged-") as folder:
        proof = Proof(plan, testbed, Path(folder), lambda progress: None)
        proof.run()
    return proof.result.to_json(plan)


def row(sold: Mapping[str, Any], away: float, proof: Mapping[str, Any]) -> dict[str, Any]:
    """Return a strategy's figures and verdict."""
    unknown = [each for each in proof["properties"] if each["verdict"] == "unknown"]
    missing = "; ".join(f"{each['id']}, {each['detail']}" for each in unknown)
    return {
        "name": sold["name"],
        "rate": sold["rps"],
        "p99_ms": sold["p99_ms"],
        # Both counts: a slow strategy may sell too little in its seconds to oversell.
        "oversold": max(sold["oversold"], proof["counts"].get("oversold", 0)),
        "without_redis": away,
        "verdict": proof["verdict"],
        "reason": proof.get("reason") or missing,
        "broken": [each["id"] for each in proof["properties"] if each["verdict"] == "fail"],
    }


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


def _notes(document: Document) -> Iterator[str]:
    yield "Rate: accepted purchases per second, divided by the default's in this run."
    for each in document["rows"]:
        if each["verdict"] == "unknown":
            yield f"`{each['name']}` was not judged: {each['reason']}"


STRATEGIES = Benchmark("strategies", table, _notes)
