"""How many events a run can record and judge, and in how much memory: `python -m loadtest.bench`.

An event is a line of the history: each purchase leaves two, its request and its answer. Of the
purchases that are written here, one in 500 gets a unit, and the others are told that the sale is
sold out. No shop is asked, so the figures are those of the recorder and of the checker alone.
"""

from __future__ import annotations

import argparse
import resource
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from loadtest.checker import EXIT_CODES, judge, snapshot
from loadtest.files import RunFiles
from loadtest.history import FAIL, OK, Operation, Recorder

EVENTS = 1_000_000
ONE_IN = 500
"""Of so many purchases, one gets a unit."""

ITEM, SALE = "7", "1"

JUDGED = ("P1", "P2", "P3", "P4", "P5", "P6", "P7", "P8", "P13")
"""The properties of every sale, and that the run saw enough."""


class Measured(NamedTuple):
    """What a run came to.

    Attributes:
        recorded, judged: events per second.
        memory: the most that the process used, in MB.
        verdict: pass, fail or unknown.
    """

    recorded: float
    judged: float
    memory: float
    verdict: str


def measure(folder: Path, events: int) -> Measured:
    """Record a run of so many events in an empty folder, and judge it."""
    files, purchases = RunFiles(folder), events // 2
    units = -(-purchases // ONE_IN)
    began = time.perf_counter()
    _record(folder / "bench.jsonl", purchases, units)
    recorded = time.perf_counter()
    snapshot.write(files.final, snapshot.Header(time.monotonic_ns(), (), 1), _books(units))
    written = time.perf_counter()
    verdict = judge(files, properties=JUDGED, enough={"ok": 1, "sold_out": 1})
    ended = time.perf_counter()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    rates = 2 * purchases / (recorded - began), 2 * purchases / (ended - written)
    return Measured(*rates, peak, verdict.verdict)


def _record(path: Path, purchases: int, units: int) -> None:
    """Write the history: the first purchases get the units."""
    recorder = Recorder(path)
    for number in range(purchases):
        call, buyer, key = f"b{number}#1", f"b{number}", f"key {number}"
        recorder.invoke(Operation(0, call, "order", buyer, buyer, key, 1, SALE, ITEM, 1))
        if number < units:
            recorder.complete(call, OK, status=201, order=str(number))
        else:
            recorder.complete(call, FAIL, status=409, code="sold_out")
    recorder.close()


def _books(units: int) -> Iterator[snapshot.Row]:
    """Yield the shop's books, in which all units are held."""
    yield snapshot.Item(ITEM, units, 0, units, 0, 0)
    yield snapshot.Sale(SALE, ITEM, 1)
    for number in range(units):
        identity, key = str(number), f"key {number}"
        yield snapshot.Reservation(identity, ITEM, identity, key, 1, snapshot.HELD)
        yield snapshot.Order(identity, identity, SALE, ITEM, identity, key, 1)


def main(arguments: list[str] | None = None) -> int:
    """Measure once, print a line, and return the exit code of the verdict."""
    parser = argparse.ArgumentParser(prog="python -m loadtest.bench", description=__doc__)
    parser.add_argument("--events", type=int, default=EVENTS, help=f"to record ({EVENTS:,})")
    options = parser.parse_args(arguments)
    if options.events < 2 * ONE_IN:
        parser.error(f"--events must be at least {2 * ONE_IN:,}")
    with tempfile.TemporaryDirectory() as folder:
        found = measure(Path(folder), options.events)
    print(
        f"{options.events:,} events: recorded {found.recorded:,.0f} per second, judged "
        f"{found.judged:,.0f} per second, {found.memory:,.0f} MB; verdict {found.verdict}"
    )
    return EXIT_CODES[found.verdict]


if __name__ == "__main__":
    sys.exit(main())
