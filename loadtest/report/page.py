"""The page around the charts."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from string import Template

from loadtest.checker import FAIL, PASS, UNKNOWN, Finding, Verdict
from loadtest.report.charts import Charts, number
from loadtest.report.gather import Evidence, Fault
from loadtest.report.meanings import CLOSED_LOOP, MEANINGS, OPEN_LOOP, SUMMARIES

_HERE = Path(__file__).parent


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
    drawn = charts.html() if charts else ""
    return Template((_HERE / "page.html").read_text(encoding="utf-8")).substitute(
        title=escape(story.title),
        outcome=outcome,
        word=word,
        sentence=escape(story.reason or sentence),
        figures=_figures(verdict),
        facts=_definitions(story.facts),
        loop=_loop(evidence),
        charts=drawn or "<p>Nothing was recorded.</p>",
        faults=_faults(evidence),
        properties="".join(map(_property, verdict.properties if verdict else [])),
        answers=_answers(evidence),
        repeat=_repeat(story.repeat),
        css=(_HERE / "page.css").read_text(encoding="utf-8"),
        js=(_HERE / "page.js").read_text(encoding="utf-8"),
        # "</" would end the script, whatever the values say.
        values=json.dumps(charts.values if charts else {}, separators=(",", ":")).replace(
            "</", "<\\/"
        ),
    )


def _loop(evidence: Evidence | None) -> str:
    if evidence is None:
        return ""
    if not evidence.open_loop:
        return CLOSED_LOOP
    late = f" {number(evidence.late)} of {number(evidence.delays.count)} began late."
    return OPEN_LOOP + late


def _figures(verdict: Verdict | None) -> str:
    if verdict is None or not verdict.counts:
        return ""
    counts = verdict.counts
    oversold = counts["oversold"]
    shown: list[tuple[str, int, str]] = [
        ("oversold", oversold, "bad" if oversold else "good"),
        ("reserved or sold", counts["held"] + counts["confirmed"], ""),
        ("left", counts["available"], ""),
        ("orders", counts["orders"], ""),
        ("told “you have it”", counts["ok"], ""),
        ("told no", counts["fail"], ""),
        ("left without an answer", counts["info"], ""),
    ]
    return "".join(
        f'<div class="{mood}"><b>{number(value)}</b><span>{escape(name)}</span></div>'
        for name, value, mood in shown
    )


def _definitions(facts: Mapping[str, object]) -> str:
    return "".join(
        f"<div><dt>{escape(name)}</dt><dd>{escape(str(value))}</dd></div>"
        for name, value in facts.items()
    )


def _faults(evidence: Evidence | None) -> str:
    if evidence is None or not evidence.faults:
        return ""
    rows = (
        (str(order), fault.name, _seconds(fault.start - evidence.start), *_what_happened(fault))
        for order, fault in enumerate(evidence.faults, start=1)
    )
    table = _table(("", "fault", "began", "lasted", "what was done"), rows)
    return f"<h2>Faults</h2><p>The bands in the charts, in their order.</p>{table}"


def _what_happened(fault: Fault) -> tuple[str, str]:
    if fault.error:
        return "–", f"not injected: {fault.error}"
    return _seconds(fault.end - fault.start), fault.did


def _seconds(ns: int) -> str:
    return f"{ns / 1e9:.1f} s"


def _property(finding: Finding) -> str:
    shown = "".join(f"<li><code>{escape(each)}</code></li>" for each in finding.evidence)
    is_open = " open" if finding.verdict == FAIL else ""
    evidence = (
        f"<details{is_open}><summary>Evidence</summary><ol>{shown}</ol></details>" if shown else ""
    )
    return (
        f'<section class="property {finding.verdict}" id="{finding.id}">'
        f'<h3><span class="id">{finding.id}</span> {escape(finding.name)} '
        f'<span class="badge {finding.verdict}">{finding.verdict.upper()}</span></h3>'
        f'<p>{escape(MEANINGS[finding.id])}</p><p class="seen">{escape(finding.detail)}</p>'
        f"{evidence}</section>"
    )


def _answers(evidence: Evidence | None) -> str:
    if evidence is None or not evidence.answers:
        return ""
    rows = (
        (op, answer, {"ok": "accepted", "fail": "refused", "info": "unknown"}.get(outcome, ""), n)
        for (op, answer, outcome), n in sorted(evidence.answers.items())
    )
    table = _table(("call", "answer", "which means", "how often"), rows)
    return f'<h2>Every call</h2><div class="answers">{table}</div>'


def _table(head: Iterable[str], rows: Iterable[Iterable[object]]) -> str:
    def cell(value: object) -> str:
        if isinstance(value, int):
            return f'<td class="number">{number(value)}</td>'
        return f"<td>{escape(str(value))}</td>"

    body = "".join(f"<tr>{''.join(map(cell, row))}</tr>" for row in rows)
    names = "".join(f"<th>{escape(name)}</th>" for name in head)
    return (
        f'<div class="scroll"><table><thead><tr>{names}</tr></thead>'
        f"<tbody>{body}</tbody></table></div>"
    )


def _repeat(command: str) -> str:
    if not command:
        return ""
    return (
        f"<h2>Again</h2><p>The same buyers, doing the same things in the same order:</p>"
        f'<pre><code id="repeat">{escape(command)}</code></pre>'
    )
