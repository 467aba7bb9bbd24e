"""Duels, and their recordings that the player shows.

In a duel the same buyers come to one sale after the other, each with its own strategy. Each side is
a whole proof, with its own load, history, verdict and report, and has the machine for itself: side
by side, each would be measured under the other's load. Both histories are then played on one clock.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import Any

from inventory.models import Item
from lab import environment
from lab.bench.report import machine
from lab.proof.progress import Progress
from lab.proof.result import Result
from lab.proof.run import prove
from lab.proof.testbed import Testbed
from lab.room.replay import Mark, compose, first_beyond
from lab.room.room import Room, Task
from loadtest.files import RunFiles, Runs
from loadtest.run_plan import RunPlan
from shop.catalogue.models import Sale

SIDES = ("first", "second")
"""A duel's sides, and their folders in its own."""


def fight(
    plans: list[RunPlan],
    testbed: Testbed,
    folder: Path,
    watch: Callable[[int], Callable[[Progress], None]],
) -> list[Result]:
    """Run one side after the other; write the recording of both, and return their results.

    Args:
        plans: of the sides.
        testbed: the shop.
        folder: for the recording, and a folder of each side with its history and report.
        watch: called with the side's number; returns the function that is called with its progress.

    Raises:
        LoadFailed, StackError: a side could not be run.
    """
    results, sides = [], []
    for number, (plan, name) in enumerate(zip(plans, SIDES, strict=True)):
        files = RunFiles(folder / name)
        files.path.mkdir()
        result = prove(plan, testbed, files.path, watch(number), files.report)
        results.append(result)
        replay = replay_of(files, result.sale, plan.strategy)
        sides.append({"strategy": plan.strategy, **outcome(result), "replay": replay})
    first = plans[0]
    document = {
        "recorded": time.strftime("%Y-%m-%d"),
        "machine": described(),
        "command": command(plans),
        "buyers": first.buyers,
        "units": first.stock,
        "seed": first.seed,
        "sides": sides,
    }
    text = json.dumps(document, separators=(",", ":"))
    (folder / RECORDING).write_text(text, encoding="utf-8")
    return results


def units_of(sale: str) -> dict[str, int]:
    """Return how many units of a sale are taken, and of how many; nothing before it is open."""
    found = Sale.objects.select_related("item").filter(pk=int(sale)).first() if sale else None
    return {"taken": found.item.reserved, "units": found.item.total} if found else {}


def described() -> str:
    """Return the machine in a few words."""
    found = machine()
    return f"{found['cores']} cores, {found['memory_gb']} GB, Python {found['python']}"


def command(plans: list[RunPlan]) -> str:
    """Return the command that repeats a duel."""
    first, second = plans
    options = f"--first {first.strategy} --second {second.strategy} --buyers {first.buyers}"
    return f'make duel ARGS="{options} --stock {first.stock} --seed {first.seed}"'


def outcome(result: Result) -> dict[str, Any]:
    """Return how a side ended, as the page shows it."""
    counts = result.verdict.counts
    return {
        "outcome": result.outcome,
        "orders": counts.get("orders", 0),
        "oversold": counts.get("oversold", 0),
        "sold_out_ms": round(result.sold_out_after * 1000),
    }


MOST = 10_000
"""Calls of a recording: those of the largest duel."""


def replay_of(files: RunFiles, sale: int, title: str) -> dict[str, Any]:
    """Compose the document of one side.

    Args:
        files: with the histories.
        sale: id of the sale.
        title: what the player shows.

    Raises:
        ValueError: a file cannot be understood.
        Error: the database does not answer.
    """
    item = Sale.objects.select_related("item").get(pk=sale).item
    marks = _oversell(item, files)
    return compose(files, title=title, marks=marks, units=item.total, most=MOST)


def _oversell(item: Item, files: RunFiles) -> list[Mark]:
    """Mark the answer that promised more than there was, if the books say that it is oversold."""
    if item.reserved <= item.total:
        return []
    call = first_beyond(files, str(item.pk), item.total)
    if call is None:
        return []
    text = (
        f"item {item.pk}: {item.reserved} sold or held of {item.total}, "
        f"{item.reserved - item.total} too many"
    )
    return [Mark("P1", "no oversell", call.end, text, call.call)]


RECORDING = "duel.json"
"""A duel's file in its folder, which the page plays; `lab/room/duel.py` writes it."""

SHIPPED = Path(__file__).parent / "shipped" / RECORDING
"""A recording, so that the first show need not wait; it says itself how it was made."""

REPORT = re.compile(r"(\d{1,9})/(first|second)")


class Duels:
    """At most one duel at a time.

    Args:
        url: of the shop.
        folder: for the last duels and their reports.
        room: shows the duel.
    """

    def __init__(self, url: str, folder: Path, room: Room) -> None:
        self._url, self._folder, self._room = url, folder, room
        self._task = Task("the last duel is still going on")
        self._process: subprocess.Popen[str] | None = None

    def start(self, strategies: tuple[str, ...], buyers: int, stock: int) -> None:
        """Start a duel.

        Raises:
            Refused: there is one already.
        """
        self._task.start(self._run, strategies, buyers, stock)

    def stop(self) -> None:
        """End the duel, and return when it has."""
        self._task.end.set()
        if self._process is not None:
            self._process.terminate()
        self._task.stop()

    def report(self, path: str) -> Path | None:
        """Return the report for a path such as ``3/first``, if it exists."""
        found = REPORT.fullmatch(path)
        run = Runs(self._folder).find(int(found[1])) if found else None
        if found is None or run is None:
            return None
        report = run.path / found[2] / "report.html"
        return report if report.exists() else None

    def recording(self) -> Path:
        """Return the recording of the last duel; of the one that ships until there is one."""
        found = [run.path / RECORDING for run in Runs(self._folder)]
        return next((path for path in reversed(found) if path.exists()), SHIPPED)

    def _run(self, strategies: tuple[str, ...], buyers: int, stock: int) -> None:
        command = [
            sys.executable,
            str(environment.PROJECT / "manage.py"),
            "duel",
            "--lines",
            "--first",
            strategies[0],
            "--second",
            strategies[1],
            "--buyers",
            str(buyers),
            "--stock",
            str(stock),
            "--folder",
            str(self._folder),
        ]
        variables = {**os.environ, "SHOP_URL": self._url}
        process = subprocess.Popen(command, env=variables, stdout=subprocess.PIPE, text=True)
        self._process = process
        if self._task.end.is_set():  # by a `stop` that saw no process yet
            process.terminate()
        sides: list[dict[str, Any]] = [{"strategy": name} for name in strategies]
        duel: dict[str, Any] = {"going": True, "run": 0, "sides": sides}
        self._room.timeline.add("duel", first=strategies[0], second=strategies[1])
        self._show(duel)
        assert process.stdout is not None
        with process.stdout:
            for line in process.stdout:
                self._learn(duel, json.loads(line))
                self._show(duel)
        process.wait()
        done = all("outcome" in side for side in sides)
        self._show({**duel, "going": False})
        self._room.timeline.add("duel_over" if done else "duel_failed")

    def _show(self, duel: dict[str, Any]) -> None:
        # A copy, which viewers may be reading at the next line.
        self._room.show("duel", deepcopy(duel))

    def _learn(self, duel: dict[str, Any], line: dict[str, Any]) -> None:
        sides = duel["sides"]
        if "run" in line:
            duel["run"] = line["run"]
        elif "results" in line:
            for number, (side, result) in enumerate(zip(sides, line["results"], strict=True)):
                side |= result
                side["report"] = f"{duel['run']}/{SIDES[number]}"
        else:
            sides[line.pop("side")].update(line)
