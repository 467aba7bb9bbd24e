"""From files to a verdict, or to what is broken already while a run goes on."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from itertools import islice
from pathlib import Path
from types import MappingProxyType
from typing import Any

from msgspec import Struct

from loadtest.checker.evidence import Accepted, Evidence, GivenBack
from loadtest.checker.properties import PROPERTIES
from loadtest.checker.properties.property import SHOWN
from loadtest.checker.properties.recovery import aftermaths
from loadtest.checker.properties.stock import MOST_OVERSOLD
from loadtest.checker.verdict import Finding, History, Problem, Step, Verdict
from loadtest.files import RunFiles
from loadtest.history import NEVER, OK

# What a run must have seen, at least, for its verdict to mean something.
ENOUGH = {"ok": 1, "sold_out": 1, "duplicate": 1}


def judge(
    files: RunFiles,
    *,
    properties: Collection[str] = tuple(PROPERTIES),
    not_judged: Mapping[str, str] = MappingProxyType({}),
    enough: Mapping[str, int] = ENOUGH,
    allows_errors: bool = False,
    books: bool = True,
    database: Path | None = None,
) -> Verdict:
    """Judge one run.

    Without a final snapshot, which was taken when everything had come to rest, every property is
    unknown. `properties` names those that the run can say something about: leaving one out is a
    decision of the caller, while one that is asked for and cannot be judged is unknown, and so is
    then the whole. `enough` is what P13 asks for (`ok`, `sold_out`, `duplicate`, `info`,
    `captured`); under faults at least one unknown answer too. `allows_errors` says that a server
    error is one more unknown answer, and the buyer asked again. Without `books`, the final snapshot
    has only what buyers were shown of their own orders, and is judged as such. `database` is a new
    SQLite file for all tables that the properties' queries read.

    Raises `HistoryError`, `SnapshotError`, `FaultLogError` for files that cannot be understood,
    `OSError` for those that cannot be read, `ValueError` for a property that does not exist.
    """
    if strange := {*properties, *not_judged} - set(PROPERTIES):
        raise ValueError(f"no such property: {', '.join(sorted(strange))}")
    wanted = [
        identity for identity in PROPERTIES if identity in properties and identity not in not_judged
    ]
    with Evidence(enough=enough, allows_errors=allows_errors) as evidence:
        evidence.load(files)
        if database is not None:
            evidence.save(database)
        known = [PROPERTIES[identity] for identity in wanted]
        findings = [
            known_property.judge(evidence) if books else known_property.judge_answers(evidence)
            for known_property in known
        ]
        return Verdict(
            findings,
            _counts(evidence),
            aftermaths(evidence),
            dict(not_judged),
            histories=_histories(evidence, findings),
            ends=_ends(evidence),
        )


def buyers_by_end(files: RunFiles) -> dict[str, int]:
    """Count the buyers of a run by what they were told in the end; see `Verdict.ends`.

    Raises:
        HistoryError, SnapshotError, OSError: as `judge`.
    """
    with Evidence(enough={}) as evidence:
        evidence.load(files)
        return _ends(evidence)


_ENDS = ((3, "got"), (1, "sold_out"), (0, "refused"), (2, "no_answer"))
"""How buyers end, by the two bits that `_ends` reads."""


def _ends(evidence: Evidence) -> dict[str, int]:
    """Count the buyers who asked for an order by what they were told in the end.

    A buyer who has an order got one, whatever other attempts were told. Of the others the last
    attempt counts: a buyer who had no answer and asked again knows what the second answer says.
    The time of an answer and what it says are one number, so that a million calls are sorted in
    little memory: its last two bits say the end, and the latest one is the largest.
    """
    ended = evidence.rows(
        f"""
        SELECT last & 3, count(*) FROM (
            SELECT max(CASE outcome WHEN 'ok' THEN {NEVER} WHEN 'fail'
                       THEN ("end" & ~3) | (code = 'sold_out') ELSE ("end" & ~3) | 2 END) AS last
            FROM call WHERE op = 'order' GROUP BY buyer)
        GROUP BY 1
        """
    )
    found = dict(ended)
    return {name: found.get(bits, 0) for bits, name in _ENDS}


def _histories(evidence: Evidence, findings: Sequence[Finding]) -> dict[str, History]:
    """The smallest history of each broken property that calls show."""
    found = {}
    for finding in findings:
        histories = [_history(evidence, problem) for problem in finding.problems]
        if shown := [history for history in histories if history.rows]:
            found[finding.id] = min(shown, key=lambda history: len(history.rows))
    return found


def _counts(evidence: Evidence) -> dict[str, int]:
    """The figures of a run: keys by outcome, keys refused for want of stock, and final units."""
    counts = {"ok": 0, "fail": 0, "info": 0}
    counts.update(evidence.rows("SELECT outcome, count(*) FROM purchase GROUP BY outcome"))
    counts["sold_out"] = evidence.value(
        "SELECT count(*) FROM purchase WHERE outcome = 'fail' AND sold_outs > 0"
    )
    counts["orders"] = evidence.value('SELECT count(DISTINCT id) FROM "order" WHERE snapshot = 0')
    counts["lost"] = evidence.value(
        """
        SELECT count(*) FROM purchase WHERE outcome = 'ok' AND NOT EXISTS (
            SELECT 1 FROM "order" AS o WHERE o.snapshot = 0 AND o.key = purchase.key
        )
        """
    )
    counts["oversold"] = evidence.value(f"SELECT coalesce(sum(beyond), 0) FROM ({MOST_OVERSOLD})")
    names = ("available", "held", "confirmed", "total")
    sums = next(
        evidence.rows(
            """
            SELECT sum(available), sum(held), sum(confirmed), sum(total) FROM item
            WHERE snapshot = 0
            """
        )
    )
    return counts | {name: value or 0 for name, value in zip(names, sums, strict=True)}


# Purchases shown before the first one too many, at most.
BEFORE = 5


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
        for judged in PROPERTIES.values():
            if judged.id in not_judged:
                continue
            problems = islice(judged.so_far(evidence), SHOWN)
            if (least := min(problems, key=lambda p: len(p.calls), default=None)) is not None:
                before, history = _history(evidence, least)
                found.append(Broken(judged.id, judged.name, least.text, before, history))
        return found


def _history(evidence: Evidence, problem: Problem) -> History:
    """The calls that show a problem.

    Without any of its own, they are the call that broke it, and those that gave its order back.
    """
    rows, before = _shown_by(evidence, problem)
    if not rows and problem.call:
        found = evidence.rows("SELECT rowid FROM call WHERE call = ?", problem.call)
        order = problem.facts.get("order")
        returns = evidence.gives_back(str(order)) if order else []
        rows = list({*(row for (row,) in found), *returns})
    return History(before, _steps(evidence, rows) if rows else [])


def _shown_by(evidence: Evidence, problem: Problem) -> tuple[Sequence[int], int]:
    """The calls that show a problem, and how many purchases were accepted before them."""
    accepted = evidence.accepted(problem.facts["item"]) if "units" in problem.facts else []
    if not accepted:
        return problem.calls, 0
    beyond = next(
        (n for n, promise in enumerate(accepted) if promise.units > problem.facts["units"]), None
    )
    returned = _suspect(evidence, problem, accepted[beyond] if beyond is not None else None)
    order = returned.order if returned else ""
    of_order = [promise.row for promise in accepted if returned and promise.order == order]
    of_order += returned.rows if returned else ()
    if beyond is None and returned:
        return of_order, 0
    last = len(accepted) - 1 if beyond is None else beyond
    # Those that were under way at the same time, or at least the one before.
    first = next(n for n, promise in enumerate(accepted) if promise.end >= accepted[last].start)
    first = max(0, last - BEFORE, min(first, last - 1))
    return [*{*(promise.row for promise in accepted[first : last + 1]), *of_order}], first


def _suspect(evidence: Evidence, problem: Problem, beyond: Accepted | None) -> GivenBack | None:
    """The order whose return may have made units that do not exist; None if none came back.

    It is the one that was given back most often, and the latest of several, before a promise too
    many was answered.
    """
    until = NEVER if beyond is None else beyond.end
    before = [order for order in evidence.given_back(problem.facts["item"]) if order.since < until]
    return max(before, key=lambda order: (order.granted, order.since), default=None)


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
    answered = " ".join(word for word in words if word)
    return Step(f"{at} {call['until'] / 1e6:,.1f} ms", call["buyer"], asked, answered)
