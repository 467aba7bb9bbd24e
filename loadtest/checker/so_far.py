"""What is broken already while a run goes on, each with the smallest history that shows it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from itertools import islice
from typing import Any

from msgspec import Struct

from loadtest.checker.evidence import Evidence
from loadtest.checker.properties import PROPERTIES
from loadtest.checker.properties.property import SHOWN
from loadtest.checker.verdict import Problem
from loadtest.files import RunFiles
from loadtest.history import NEVER, OK

# Purchases shown before the first one too many, at most.
BEFORE = 5


class Step(Struct, frozen=True):
    """A call: when, in ms since the run's first one, by whom, and what was asked and answered."""

    at: str
    buyer: str
    asked: str
    answered: str


class Broken(Struct, frozen=True):
    """A property that the verdict will find broken, whatever follows.

    Attributes:
        id, name: of the property.
        reason: the evidence.
        before: purchases that were accepted before the history.
        history: the calls that show it, as few as possible.
    """

    id: str
    name: str
    reason: str
    before: int
    history: list[Step]


def judge_so_far(
    files: RunFiles, *, not_judged: Collection[str] = (), faults: bool = False
) -> list[Broken]:
    """Judge an unfinished run by what no later call or snapshot can fix.

    Args:
        files: of the run, whose histories may still be written.
        not_judged: properties that the run says nothing about.
        faults: whether faults are injected.

    Raises:
        HistoryError, SnapshotError, OSError: as `judge`.
    """
    with Evidence(enough={}) as evidence:
        evidence.load(files)
        # A fault is logged when it is over.
        evidence.has_faults = faults
        found = []
        for each in PROPERTIES.values():
            if each.id in not_judged:
                continue
            problems = islice(each.so_far(evidence), SHOWN)
            if (least := min(problems, key=lambda p: len(p.calls), default=None)) is not None:
                rows, before = _shown_by(evidence, least)
                history = _steps(evidence, rows)
                found.append(Broken(each.id, each.name, least.text, before, history))
        return found


def _shown_by(evidence: Evidence, problem: Problem) -> tuple[Sequence[int], int]:
    """The calls that show a problem, and how many purchases were accepted before them."""
    accepted = evidence.accepted(problem.facts["item"]) if "units" in problem.facts else []
    if not accepted:
        return problem.calls, 0
    last = next((n for n, each in enumerate(accepted) if each.units > problem.facts["units"]), -1)
    last %= len(accepted)
    # Those that were under way at the same time, or at least the one before.
    first = next(n for n, each in enumerate(accepted) if each.end >= accepted[last].start)
    first = max(0, last - BEFORE, min(first, last - 1))
    return [each.row for each in accepted[first : last + 1]], first


def _steps(evidence: Evidence, rows: Sequence[int]) -> list[Step]:
    """Calls by the time of their answers."""
    calls = evidence.facts(
        f"""
        SELECT call.*, start - first AS since, "end" - first AS until, "end" = {NEVER} AS unanswered
        FROM call CROSS JOIN (SELECT min(start) AS first FROM call)
        WHERE call.rowid IN ({", ".join(map(str, rows))}) ORDER BY "end", start
        """
    )
    return [_step(call) for call in calls]


def _step(call: Mapping[str, Any]) -> Step:
    op, order, sale = call["op"], call["order_id"], call["sale"]
    about = f"order {order}" if order and op != "order" else f"sale {sale}" if sale else ""
    units = f"{call['quantity']} of " if call["quantity"] else ""
    asked = f"{op}: {units}{about}" + (f", key {call['key']}" if call["key"] else "")
    at = f"{call['since'] / 1e6:,.1f} –"
    if call["unanswered"]:
        return Step(f"{at}  ms", call["buyer"], asked, "nothing yet")
    told = f"order {order}" if call["outcome"] == OK and op == "order" else call["code"]
    left = "" if call["available"] is None else f"{call['available']} available"
    words = (str(call["status"] or ""), told, call["shown_status"], left)
    answered = " ".join(each for each in words if each)
    return Step(f"{at} {call['until'] / 1e6:,.1f} ms", call["buyer"], asked, answered)
