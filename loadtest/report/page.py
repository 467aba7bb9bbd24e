"""The page around the charts."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from loadtest.checker import PASS, UNKNOWN, Verdict
from loadtest.report.charts import Charts, number
from loadtest.report.gather import Evidence, Fault
from loadtest.report.meanings import CLOSED_LOOP, MEANINGS, OPEN_LOOP, SUMMARIES

_HERE = Path(__file__).parent
_TEMPLATES = Environment(
    loader=FileSystemLoader(_HERE), autoescape=True, undefined=StrictUndefined, trim_blocks=True
)
_TEMPLATES.filters["number"] = number


@dataclass(frozen=True, slots=True)
class Story:
    """What the files of a run do not say.

    Attributes:
        title: what was tried, in a few words.
        repeat: the command that repeats it, with its seed.
        facts: what else to know, by name: strategy, buyers, stock and the like.
        reason: why there is no verdict, or why it is worth nothing though all properties hold.
    """

    title: str
    repeat: str = ""
    facts: Mapping[str, object] = field(default_factory=dict)
    reason: str = ""


def write(
    path: str | Path, story: Story, verdict: Verdict | None, evidence: Evidence | None
) -> None:
    """Write the report of a run; without a verdict it is *unknown*, without evidence bare."""
    Path(path).write_text(render(story, verdict, evidence), encoding="utf-8")


def render(story: Story, verdict: Verdict | None, evidence: Evidence | None) -> str:
    """The report as HTML."""
    outcome = verdict.verdict if verdict else UNKNOWN
    if outcome == PASS and story.reason:
        outcome = UNKNOWN
    word, sentence = SUMMARIES[outcome]
    charts = Charts(evidence) if evidence else None
    template = _TEMPLATES.get_template("page.html")
    return template.render(
        story=story,
        outcome=outcome,
        word=word,
        sentence=story.reason or sentence,
        figures=_figures(verdict),
        loop=_loop(evidence),
        charts=Markup(charts.html() if charts else ""),
        faults=_faults(evidence),
        findings=verdict.properties if verdict else [],
        meanings=MEANINGS,
        answers=_answers(evidence),
        css=Markup((_HERE / "page.css").read_text(encoding="utf-8")),
        js=Markup((_HERE / "page.js").read_text(encoding="utf-8")),
        # "</" would end the script, whatever the values say.
        values=Markup(
            json.dumps(charts.values if charts else {}, separators=(",", ":")).replace("</", "<\\/")
        ),
    )


def _loop(evidence: Evidence | None) -> str:
    if evidence is None:
        return ""
    if not evidence.open_loop:
        return CLOSED_LOOP
    late = f" {number(evidence.late)} of {number(evidence.delays.count)} began late."
    return OPEN_LOOP + late


def _figures(verdict: Verdict | None) -> list[tuple[str, int, str]]:
    """The figures in the head: name, value and mood."""
    if verdict is None or not verdict.counts:
        return []
    counts = verdict.counts
    oversold = counts["oversold"]
    return [
        ("oversold", oversold, "bad" if oversold else "good"),
        ("reserved or sold", counts["held"] + counts["confirmed"], ""),
        ("left", counts["available"], ""),
        ("orders", counts["orders"], ""),
        ("told “you have it”", counts["ok"], ""),
        ("told no", counts["fail"], ""),
        ("left without an answer", counts["info"], ""),
    ]


def _faults(evidence: Evidence | None) -> list[tuple[str, ...]]:
    return (
        [
            (str(order), fault.name, _seconds(fault.start - evidence.start), *_what_happened(fault))
            for order, fault in enumerate(evidence.faults, start=1)
        ]
        if evidence
        else []
    )


def _what_happened(fault: Fault) -> tuple[str, str]:
    if fault.error:
        return "–", f"not injected: {fault.error}"
    return _seconds(fault.end - fault.start), fault.did


def _seconds(ns: int) -> str:
    return f"{ns / 1e9:.1f} s"


def _answers(evidence: Evidence | None) -> list[tuple[str, str, str, int]]:
    meaning = {"ok": "accepted", "fail": "refused", "info": "unknown"}
    return (
        [
            (op, answer, meaning.get(outcome, ""), times)
            for (op, answer, outcome), times in sorted(evidence.answers.items())
        ]
        if evidence
        else []
    )
