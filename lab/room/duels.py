"""The duels that the page starts: `manage.py duel` in a process of its own."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import threading
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import Any

from lab import environment
from lab.room.timeline import Timeline
from loadtest.ui.runs import Runs

SIDES = ("first", "second")
RECORDING = "duel.json"
"""A duel's file in its folder, which the page plays; `lab/room/duel.py` writes it."""

SHIPPED = Path(__file__).parent / "shipped" / RECORDING
"""A recording of `make duel ARGS="--seed 7"`, so that the first show need not wait."""

REPORT = re.compile(r"(\d{1,9})/(first|second)")


class Duels:
    """At most one duel at a time.

    Args:
        url: of the shop.
        folder: for the last duels and their reports.
        timeline: is told.
        show: called with what is shown of the duel.
    """

    def __init__(
        self,
        url: str,
        folder: Path,
        timeline: Timeline,
        show: Callable[[dict[str, Any]], None],
    ) -> None:
        self._url, self._folder = url, folder
        self._timeline, self._show = timeline, show
        self._lock = threading.Lock()
        self._process: subprocess.Popen[str] | None = None
        self._thread: threading.Thread | None = None

    def start(self, strategies: tuple[str, ...], buyers: int, stock: int) -> bool:
        """Start a duel; return False if there is one already."""
        with self._lock:
            if self._thread is not None and self._thread.is_alive():
                return False
            command = [
                *(sys.executable, str(environment.PROJECT / "manage.py"), "duel", "--lines"),
                *("--first", strategies[0], "--second", strategies[1]),
                *("--buyers", str(buyers), "--stock", str(stock)),
                *("--folder", str(self._folder)),
            ]
            variables = {**os.environ, "SHOP_URL": self._url}
            self._process = subprocess.Popen(
                command, env=variables, stdout=subprocess.PIPE, text=True
            )
            self._thread = threading.Thread(
                target=self._follow, args=[self._process, strategies], name="duel"
            )
            self._thread.start()
            return True

    def stop(self) -> None:
        """End the duel, and return when it has."""
        if self._process is not None:
            self._process.terminate()
        if self._thread is not None:
            self._thread.join()

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

    def _follow(self, process: subprocess.Popen[str], strategies: tuple[str, ...]) -> None:
        sides: list[dict[str, Any]] = [{"strategy": name} for name in strategies]
        duel: dict[str, Any] = {"going": True, "run": 0, "sides": sides}
        self._timeline.add("duel", first=strategies[0], second=strategies[1])
        self._show(deepcopy(duel))
        assert process.stdout is not None
        with process.stdout:
            for line in process.stdout:
                self._learn(duel, json.loads(line))
                self._show(deepcopy(duel))  # a copy, which viewers may be reading at the next line
        process.wait()
        done = all("outcome" in side for side in sides)
        self._show({**deepcopy(duel), "going": False})
        self._timeline.add("duel_over" if done else "duel_failed")

    def _learn(self, duel: dict[str, Any], told: dict[str, Any]) -> None:
        sides = duel["sides"]
        if "run" in told:
            duel["run"] = told["run"]
        elif "results" in told:
            for number, (side, result) in enumerate(zip(sides, told["results"], strict=True)):
                side |= result
                side["report"] = f"{duel['run']}/{SIDES[number]}"
        else:
            sides[told.pop("side")].update(told)
