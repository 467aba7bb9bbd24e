"""The report's page."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from loadtest.checker import PASS, PROPERTIES, UNKNOWN, Verdict
from loadtest.fault_log import Injected
from loadtest.report.charts import HEIGHT, WIDTH, Charts, number
from loadtest.report.gather import Evidence
from loadtest.report.headline import (
    CLOSED_LOOP,
    OPEN_LOOP,
    SUMMARIES,
    headline,
    meanings,
    why_not,
)

_HERE = Path(__file__).parent
_TEMPLATES = Environment(
    loader=FileSystemLoader(_HERE), autoescape=True, undefined=StrictUndefined, trim_blocks=True
)
_TEMPLATES.filters["number"] = number


@dataclass(frozen=True, slots=True)
class Story:
    """Facts that the files of a run do not contain.

    Attributes:
        title: short description of the run.
        repeat: the command that repeats it, with its seed.
        facts: further facts by name, such as strategy, buyers and stock.
        reason: why there is no verdict, or why a pass does not count.
        buyers: that the run had; 0 if that is not known.
        passed: the word for a pass.
    """

    title: str
    repeat: str = ""
    facts: Mapping[str, object] = field(default_factory=dict)
    reason: str = ""
    buyers: int = 0
    passed: str = SUMMARIES[PASS][0]


def write(
    path: str | Path,
    story: Story,
    verdict: Verdict,
    evidence: Evidence | None,
) -> None:
    """Write a run's report; bare without evidence.

    Args:
        path: the file.
        story, verdict, evidence: of the run.
    """
    Path(path).write_text(render(story, verdict, evidence), encoding="utf-8")


def render(
    story: Story,
    verdict: Verdict,
    evidence: Evidence | None,
) -> str:
    """Return the report as HTML."""
    outcome = verdict.verdict
    if outcome == PASS and story.reason:
        outcome = UNKNOWN
    counts = verdict.counts
    speed = evidence.pace.speed() if evidence else None
    injected = sum(not fault.error for fault in evidence.faults) if evidence else 0
    word, *seen = headline(outcome, story.buyers, counts, speed, injected)
    charts = Charts(evidence) if evidence else None
    template = _TEMPLATES.get_template("page.html")
    return template.render(
        story=story,
        outcome=outcome,
        word=story.passed if outcome == PASS else word,
        seen=" · ".join(seen),
        sentence=story.reason or SUMMARIES[outcome][1],
        counts=meanings(counts) if counts else [],
        speed=speed.meaning if speed else "",
        loop=_loop(evidence),
        charts=charts.all() if charts else [],
        plot=(WIDTH, HEIGHT),
        faults=_faults(evidence),
        findings=verdict.properties,
        asks={identity: each.asks for identity, each in PROPERTIES.items()},
        not_judged=list(why_not(verdict.not_judged)),
        answers=_answers(evidence),
        histories=verdict.histories,
        css=Markup(_text("page.css")),
        js=Markup(_text("page.js")),
        # "</" would end the script element.
        values=Markup(
            json.dumps(charts.values if charts else {}, separators=(",", ":")).replace("</", "<\\/")
        ),
    )


def _text(name: str) -> str:
    return (_HERE / name).read_text(encoding="utf-8")


def _loop(evidence: Evidence | None) -> str:
    if evidence is None:
        return ""
    if not evidence.open_loop:
        return CLOSED_LOOP
    late, due = evidence.purchases.late, len(evidence.purchases.delays)
    return f"{OPEN_LOOP} {number(late)} of {number(due)} requests began late."


def _faults(evidence: Evidence | None) -> list[tuple[str, ...]]:
    if evidence is None:
        return []
    return [
        (str(order), fault.fault, _seconds(fault.start - evidence.start), *_what_happened(fault))
        for order, fault in enumerate(evidence.faults, start=1)
    ]


def _what_happened(fault: Injected) -> tuple[str, str]:
    if fault.error:
        return "–", f"not injected: {fault.error}"
    return _seconds(fault.end - fault.start), _told(fault.did)


def _seconds(ns: int) -> str:
    return f"{ns / 1e9:.1f} s"


def _told(did: object) -> str:
    """Summarise what was done: lists by their length."""
    if not isinstance(did, dict):
        return str(did)
    short = ((name, len(what) if isinstance(what, list) else what) for name, what in did.items())
    return ", ".join(f"{name}: {what}" for name, what in short)


def _answers(evidence: Evidence | None) -> list[tuple[str, str, str, int]]:
    meaning = {"ok": "accepted", "fail": "refused", "info": "unknown"}
    if evidence is None:
        return []
    return [
        (op, answer, meaning.get(outcome, ""), times)
        for (op, answer, outcome), times in sorted(evidence.answers.items())
    ]
