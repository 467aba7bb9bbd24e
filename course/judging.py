"""Start the process that judges a learner's lock, and stop it in time."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from course.lesson import Lesson
from course.simulator.history import MICROSECONDS, Kind
from course.simulator.timeline import Row

ROOT = Path(__file__).resolve().parents[1]

SECONDS = 10
"""Of CPU time, which does not depend on how busy the machine is."""

PATIENCE = 6
"""How many times as long the process may take by the clock, if it computes nothing."""

MAX_FILE = 64 * 1024


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the search found.

    `error`: why the file could not be judged, in one line; `wrong`: what failed, `how`: by which
    schedule, `rows`: the history.  All are empty if no schedule of `tried` broke the lock.
    """

    error: str = ""
    wrong: str = ""
    how: str = ""
    rows: tuple[Row, ...] = ()
    tried: int = 0

    @property
    def passed(self) -> bool:
        """Whether the lock was searched and not broken."""
        return not self.error and not self.wrong


def run(lesson: Lesson, source: str, filename: str, *, seconds: int = SECONDS) -> Verdict:
    """Judge a file in a process of its own, which gets `seconds` of CPU time."""
    if len(source.encode()) > MAX_FILE:
        return Verdict(error=f"{filename}: larger than {MAX_FILE >> 10} KB")
    words = ["-B", "-m", "course.judge", lesson.slug, filename, str(seconds)]
    with tempfile.TemporaryDirectory() as folder:
        try:
            done = subprocess.run(
                [sys.executable, *words],
                input=source,
                capture_output=True,
                cwd=folder,
                env={"PYTHONPATH": str(ROOT), "PYTHONUTF8": "1"},
                encoding="utf-8",
                timeout=PATIENCE * seconds,
                check=False,
            )
            out_of_time = -done.returncode in (signal.SIGKILL, signal.SIGXCPU)
        except subprocess.TimeoutExpired:
            out_of_time = True
    if out_of_time:
        why = f"not searched within {seconds} s; is there a loop in it that never ends?"
        return Verdict(error=f"{filename}: {why}")
    if done.returncode or not done.stdout:
        return Verdict(error=f"{filename}: it ended its process (exit code {done.returncode})")
    values = json.loads(done.stdout)
    return Verdict(
        values.get("error", ""),
        values.get("wrong", ""),
        values.get("how", ""),
        tuple(_row(line) for line in values.get("rows", ())),
        values.get("tried", 0),
    )


def _row(line: dict[str, object]) -> Row:
    at = round(float(str(line["at"])) * MICROSECONDS)
    who, what, answer = (str(line[name]) for name in ("client", "what", "answer"))
    return Row(at, who, Kind(str(line["kind"])), what, answer, str(line["server"]))
