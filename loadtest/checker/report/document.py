"""The verdict of a run as one document: `verdict.json`, from which the page and tables are made.

`docs/reference/verdict.md` describes it. `VERSION` grows when a member changes its meaning or goes;
new members may come at any time.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from loadtest.checker import PASS, PROPERTIES, UNKNOWN, Rate, Verdict
from loadtest.checker.properties.property import Check
from loadtest.checker.report.gather import Evidence
from loadtest.checker.report.headline import STOPPED, SUMMARIES, Speed, counted, headline
from loadtest.checker.verdict import Finding, Problem
from loadtest.fault_log import Injected
from loadtest.files import RunFiles

VERSION = 2

RARE = 1_000
"""Trials among which one goes wrong, of the fault that a large enough run would show."""


class Unseen(NamedTuple):
    """Something that a run judged, and could have missed because it happens too rarely.

    Of what happens once in N times, N trials miss it in 37 of 100 cases and 3 N trials in 5.

    Attributes:
        what: happens.
        trials: in how many cases it could have happened.
        more: what the reader should know of these trials; empty if nothing.
    """

    what: str
    trials: int
    more: str = ""

    @property
    def rarest(self) -> int:
        """N, where what happens once in N trials is seen in 95 of 100 cases."""
        return max(1, self.trials // 3)

    @property
    def text(self) -> str:
        """The sentence for people."""
        more = f": {self.more}" if self.more else ""
        return f"{self.what} less often than once in {self.rarest:,}{more}"

    def to_json(self) -> dict[str, Any]:
        """Return it with the size that would show what goes wrong once in a thousand times."""
        return {
            "what": self.what,
            "text": self.text,
            "trials": self.trials,
            "seen_if_once_in": self.rarest,
            "trials_for_once_in_1000": 3 * RARE,
        }


@dataclass(frozen=True, slots=True)
class Description:
    """Facts that the files of a run do not contain.

    Attributes:
        title: short description of the run.
        repeat: the command that repeats it, with its seed.
        facts: further facts by name, such as strategy, buyers and stock.
        reason: why there is no verdict, or why a pass does not count.
        buyers: that the run had; 0 if that is not known.
        passed: the word for a pass.
        look: a command that shows the figures of the shop's own books; empty if none is known.
        remarks: what the reader should know besides, in sentences.
        figures: further figures of the page's first section, by their names.
        stopped: where the run was ended before its buyers had finished, what had been done by
            then, in a sentence; empty if it was not.
        left_open: what the run could not have seen at all, in phrases.
    """

    title: str
    repeat: str = ""
    facts: Mapping[str, Any] = field(default_factory=dict)
    reason: str = ""
    buyers: int = 0
    passed: str = SUMMARIES[PASS][0]
    look: str = ""
    remarks: Sequence[str] = ()
    figures: Mapping[str, int] = field(default_factory=dict)
    stopped: str = ""
    left_open: Sequence[str] = ()


def document(
    description: Description, verdict: Verdict, evidence: Evidence | None, files: RunFiles
) -> dict[str, Any]:
    """Return the verdict of a run as data.

    Args:
        description: what its files do not say.
        verdict: of the checker.
        evidence: gathered from its files; None if they cannot be read.
        files: of the run.
    """
    outcome = verdict.verdict
    if outcome == PASS and description.reason:
        outcome = UNKNOWN
    speed = evidence.pace.speed() if evidence else None
    faults = evidence.faults if evidence else []
    injected = sum(not fault.error for fault in faults)
    word, *figures = headline(outcome, description.buyers, verdict.counts, speed, injected)
    return {
        "version": VERSION,
        "title": description.title,
        "verdict": outcome,
        "headline": [
            description.passed if outcome == PASS else word,
            *([STOPPED] if description.stopped else []),
            *figures,
        ],
        "reason": description.reason or verdict.reason,
        "stopped": description.stopped,
        "repeat": description.repeat,
        "buyers": description.buyers,
        "result": _result(verdict, speed, injected) | dict(description.figures),
        "facts": {name: str(value) for name, value in description.facts.items()},
        "properties": [_property(finding) for finding in verdict.properties],
        "not_judged": dict(verdict.not_judged),
        "not_seen": [rare.to_json() for rare in unseen(verdict)],
        "left_open": list(description.left_open),
        "remarks": list(description.remarks),
        "rounds": [],
        "counts": dict(verdict.counts),
        "speed": None if speed is None else speed._asdict() | {"rate": speed.rate},
        "answers": _answers(evidence),
        "faults": list(_faults(evidence, verdict)) if evidence else [],
        "histories": {
            identity: {"before": history.before, "rows": [row._asdict() for row in history.rows]}
            for identity, history in verdict.histories.items()
        },
        "check": {
            "look": description.look,
            "again": f"python -m loadtest.checker {files.path.name}",
            "database": f"python -m loadtest.checker {files.path.name} --database run.sqlite",
            "files": [path.name for path in _raw(files)],
        },
    }


def _result(verdict: Verdict, speed: Speed | None, injected: int) -> dict[str, int]:
    """Return the figures of the page's first section, as far as they are known."""
    counts, figures = verdict.counts, {}
    if counts:
        figures = {
            "buyers": sum(verdict.ends.values()),
            **verdict.ends,
            "units": counts["total"],
            "taken": counts["held"] + counts["confirmed"],
            "oversold": counts["oversold"],
        }
    if speed is not None:
        figures |= {"rate": round(speed.rate), "p99": round(speed.p99)}
    return figures | ({"faults": injected} if injected else {})


def unseen(verdict: Verdict) -> Iterator[Unseen]:
    """Yield what a run could have missed, by the number of its answers."""
    counts = verdict.counts
    if promised := counts.get("ok"):
        yield Unseen("an answered order that is lost", promised, f"{promised:,} were answered")
    if refused := counts.get("sold_out"):
        yield Unseen("an untrue “sold out”", refused, f"{counted(refused, 'purchase')} heard it")


def _raw(files: RunFiles) -> Iterator[Path]:
    """Yield the files that the verdict was made from."""
    yield from files.histories()
    others = (files.final, files.terms, files.ledger, files.deliveries, files.faults)
    yield from (path for path in others if path.exists())


def _property(finding: Finding) -> dict[str, Any]:
    known = PROPERTIES[finding.id]
    return {
        **finding.to_json(),
        "asks": known.asks,
        "problems": [_problem(problem) for problem in finding.problems],
        "sql": {
            "counts": _statement(known.counts) if hasattr(known, "counts") else "",
            "checks": [_check(check) for check in known.checks],
            "code": type(known).__module__,
        },
    }


def _problem(problem: Problem) -> dict[str, Any]:
    return {
        "text": problem.text,
        "facts": {name: _plain(value) for name, value in problem.facts.items()},
        "at": problem.at,
        "call": problem.call,
    }


def _plain(value: object) -> object:
    return value if isinstance(value, str | int | float | bool | None) else str(value)


def _check(check: Check) -> dict[str, str]:
    return {"says": check.says, "query": _statement(check.query)}


def _statement(query: str) -> str:
    """Return SQL without the indentation of our source."""
    lines = [line.rstrip() for line in query.strip("\n").splitlines() if line.strip()]
    indents = [len(line) - len(line.lstrip()) for line in lines[1:]] or [0]
    least = min(indents)
    return "\n".join([line.strip() if not n else line[least:] for n, line in enumerate(lines)])


def _answers(evidence: Evidence | None) -> list[dict[str, Any]]:
    if evidence is None:
        return []
    return [
        {"call": op, "answer": answer, "outcome": outcome, "count": times}
        for (op, answer, outcome), times in sorted(evidence.answers.items())
    ]


def _faults(evidence: Evidence, verdict: Verdict) -> Iterator[dict[str, Any]]:
    followed = {aftermath.start: aftermath for aftermath in verdict.aftermaths}
    for fault in evidence.faults:
        after = followed.get(fault.start)
        yield {
            "fault": fault.fault,
            "start": round((fault.start - evidence.start) / 1e9, 3),
            "seconds": round((fault.end - fault.start) / 1e9, 3),
            "did": _told(fault),
            "error": fault.error,
            "recovery": after.recovery if after else None,
            "settled": {kind: _rate(rate) for kind, rate in after.rates.items()} if after else {},
        }


def _rate(rate: Rate) -> dict[str, int]:
    return {"answers": rate.answers, "bad": rate.bad}


def _told(fault: Injected) -> str:
    """Summarise what was done: lists by their length."""
    did = fault.did
    if not isinstance(did, dict):
        return str(did)
    short = ((name, len(what) if isinstance(what, list) else what) for name, what in did.items())
    return ", ".join(f"{name}: {what}" for name, what in short)


def why_not(not_judged: Mapping[str, str]) -> Iterable[str]:
    """Yield a line per reason for which properties were not judged."""
    for reason in dict.fromkeys(not_judged.values()):
        names = ", ".join(
            f"{identity} {PROPERTIES[identity].name}"
            for identity, why in not_judged.items()
            if why == reason
        )
        yield f"Not judged, since {reason}: {names}."
