"""A long series of proofs under random faults, each a round of its own: fresh servers, a fresh
sale, its own verdict. So memory and disk stay bounded however long it runs, and it can be
interrupted.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from random import Random
from typing import Any

from development.folder import write_private
from lab import environment
from lab.proof import soak_summary

STATE = "state.json"
ROUNDS = "rounds"

QUICK = {"rush": 5, "doubles": 2}
"""Mixes that make many operations, and how often each comes; their buyers do not pay."""

MIXES = {**QUICK, "carts": 1, "all": 2}
"""Mixes whose buyers ask twice for the same, as P13 wants it. `all` has the others in it."""

STRATEGIES = ("combining", "guard", "row_lock")
"""Those that keep every promise under every fault. `redis_lock` does not oversell either, but when
its holder dies every buyer waits until its lease of 10 s has ended, which P12 calls too long."""

BUYERS = (30, 90)
LIMIT = (1, 3)
"""Ranges to draw from: buyers at once, units a buyer."""

STOCK, SMALL_STOCK = (50, 400), (20, 80)
"""Units at each restock, so that a sale is as often sold out as not; the smaller ones where little
is sold at once: by other strategies than combining, or with payments."""

GRACE = 360
"""Seconds beyond its minutes after which a round is given up: start, drain and verdict."""


@dataclass(frozen=True, slots=True)
class SoakPlan:
    """What a soak is to be.

    Attributes:
        seed: of everything that is drawn.
        minutes: of wall time, over all its sessions.
        round_minutes: of load in one round.
        lanes: rounds at a time, each against a shop of its own.
        strategies: to draw from.
    """

    seed: int
    minutes: float
    round_minutes: float
    lanes: int
    strategies: Sequence[str]


@dataclass(slots=True)
class State:
    """What has been done, as it is kept in the folder.

    Attributes:
        seed: of the soak; a folder has one.
        seconds: of wall time so far.
        begun: rounds that were begun.
        unfinished: numbers of rounds that were interrupted, and come again.
        rounds: the results, without what is too much to keep.
    """

    seed: int
    seconds: float = 0.0
    begun: int = 0
    unfinished: list[int] = field(default_factory=list)
    rounds: list[dict[str, Any]] = field(default_factory=list)


class Soak:
    """Runs rounds until the time is over.

    Args:
        folder: for the state, the summary, and the evidence of rounds that did not pass.
        plan: what is to be done. The seed of a folder that has a state already wins.
        tell: called with a line for each round that has ended.
    """

    def __init__(self, folder: Path, plan: SoakPlan, tell: Callable[[str], None]) -> None:
        self.folder = folder
        self._plan = plan
        self._tell = tell
        self._lock = threading.Lock()
        self._running: set[subprocess.Popen[bytes]] = set()
        self._ends = False
        self._taken: set[int] = set()
        (folder / ROUNDS).mkdir(parents=True, exist_ok=True)
        path = folder / STATE
        self.state = State(**json.loads(path.read_text())) if path.exists() else State(plan.seed)
        self._before = self.state.seconds
        self._begun_at = time.monotonic()

    def run(self) -> dict[str, Any]:
        """Go on until the minutes are over; the summary."""
        try:
            with ThreadPoolExecutor(self._plan.lanes) as lanes:
                lane = [lanes.submit(self._lane) for _ in range(self._plan.lanes)]
                try:
                    for each in lane:
                        each.result()
                except BaseException:
                    self._stop()
                    raise
        finally:
            self._save()
        return self.summary()

    def summary(self) -> dict[str, Any]:
        """What all rounds together came to."""
        return soak_summary.summary(asdict(self.state))

    def _lane(self) -> None:
        while (number := self._next()) is not None:
            result = self._play(number)
            if self._ends:
                return
            self._finish(number, result)

    def _next(self) -> int | None:
        """The number of the next round; None when the time is over."""
        with self._lock:
            if self._ends or self._seconds() >= 60 * self._plan.minutes:
                return None
            again = [each for each in self.state.unfinished if each not in self._taken]
            if again:
                number = again[0]
            else:
                self.state.begun = number = self.state.begun + 1
                self.state.unfinished.append(number)
            self._taken.add(number)
            self._save()
            return number

    def _play(self, number: int) -> dict[str, Any]:
        """One round, in a process of its own; its result, or why there is none."""
        folder = self.folder / ROUNDS / f"{number:04}"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        drawn = draw_round(self.state.seed, number, self._plan.strategies)
        file = folder / "result.json"
        command = [
            *(sys.executable, "manage.py", "prove", "--faults", "all"),
            *("--minutes", str(self._plan.round_minutes)),
            *(text for name, value in drawn.items() for text in (f"--{name}", str(value))),
            *("--json", str(file.resolve()), "--jsonl", str((folder / "run").resolve())),
        ]
        began = time.monotonic()
        reason = self._execute(command, folder / "prove.log")
        result: dict[str, Any] = {"verdict": "unknown", "reason": reason}
        with suppress(OSError, ValueError):
            result = json.loads(file.read_text())
        return {"round": number, **drawn, **result, "took": round(time.monotonic() - began, 1)}

    def _execute(self, command: list[str], log: Path) -> str:
        with log.open("wb") as output:
            process = subprocess.Popen(
                command,
                cwd=environment.PROJECT,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                # Ctrl-C is for this command, which then ends its rounds in order.
                start_new_session=True,
            )
            with self._lock:
                self._running.add(process)
            try:
                code = process.wait(60 * self._plan.round_minutes + GRACE)
            except subprocess.TimeoutExpired:
                process.terminate()
                with suppress(subprocess.TimeoutExpired):
                    process.wait(60)
                process.kill()
                process.wait()
                return "the round did not end"
            finally:
                with self._lock:
                    self._running.discard(process)
        return f"no result; exit code {code}"

    def _finish(self, number: int, result: dict[str, Any]) -> None:
        with self._lock:
            self.state.rounds.append(soak_summary.kept(result))
            self.state.unfinished.remove(number)
            self._save()
            if result["verdict"] == "pass":
                shutil.rmtree(self.folder / ROUNDS / f"{number:04}")
            self._tell(soak_summary.line(result, self.summary()))

    def _stop(self) -> None:
        """Interrupted: the rounds that are on end, and come again next time."""
        self._ends = True
        with self._lock:
            running = list(self._running)
        for process in running:
            process.terminate()

    def _save(self) -> None:
        self.state.seconds = self._seconds()
        write_private(self.folder / STATE, json.dumps(asdict(self.state), indent=1))
        summary = self.summary()
        (self.folder / "summary.json").write_text(json.dumps(summary, indent=2) + "\n")
        (self.folder / "summary.md").write_text(soak_summary.markdown(summary))

    def _seconds(self) -> float:
        return self._before + time.monotonic() - self._begun_at


def draw_round(seed: int, number: int, strategies: Sequence[str]) -> dict[str, Any]:
    """Arguments of `prove` for a round; the strategy named first comes three times in four."""
    random = Random(f"soak/{seed}/{number}")
    first, *others = strategies
    strategy = first if not others or random.random() < 0.75 else random.choice(others)
    [mix] = random.choices(list(MIXES), list(MIXES.values()))
    quick = strategy == "combining" and mix in QUICK
    return {
        "strategy": strategy,
        "mix": mix,
        "buyers": random.randint(*BUYERS),
        "stock": random.randint(*(STOCK if quick else SMALL_STOCK)),
        "limit": random.randint(*LIMIT),
        "seed": random.randrange(1, 2**31),
    }
