"""The verdict on a run from its files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from loadtest.checker import FaultLogError, HistoryError, SnapshotError, Verdict, judge
from loadtest.replay import ServedError
from loadtest.shops.flash_sale import SPECIFICATION
from loadtest.steps.files import RunFiles

# Evidence that cannot be read leaves the verdict unknown.
UNREADABLE = (HistoryError, SnapshotError, FaultLogError, ServedError, OSError)


class Judged(NamedTuple):
    """A verdict; None if there is none, with the reason."""

    verdict: Verdict | None
    reason: str = ""


def judge_run(
    files: RunFiles, histories: Sequence[str | Path], not_judged: Mapping[str, str], **more: Any
) -> Judged:
    """Judge a run but for these properties; never fails, but says why there is no verdict.

    Args:
        files: of the run.
        histories: of its buyers.
        not_judged: the properties that it says nothing about, and why not.
        more: further arguments of the checker's `judge`.
    """
    try:
        verdict = judge(
            histories,
            files.final,
            during=files.during(),
            ledger=_existing(files.ledger),
            deliveries=_existing(files.deliveries),
            terms=_existing(files.terms),
            faults=_existing(files.faults),
            not_judged=not_judged,
            specification=SPECIFICATION,
            **more,
        )
    except UNREADABLE as error:
        return Judged(None, str(error))
    return Judged(verdict)


def _existing(path: Path) -> Path | None:
    return path if path.exists() else None
