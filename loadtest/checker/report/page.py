"""The page of a verdict: the report's file, what Locust's tab and the control room show."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from loadtest.checker.report.charts import Charts, number
from loadtest.checker.report.document import why_not
from loadtest.checker.report.gather import Evidence
from loadtest.checker.report.headline import (
    CLOSED_LOOP,
    OPEN_LOOP,
    STOPPED,
    SUMMARIES,
    Speed,
    meanings,
)

_HERE = Path(__file__).parent
_TEMPLATES = Environment(
    loader=FileSystemLoader(_HERE), autoescape=True, undefined=StrictUndefined, trim_blocks=True
)
_TEMPLATES.filters["number"] = number
_TEMPLATES.globals["rows_of"] = lambda rows: [tuple(row.values()) for row in rows]


class Words(NamedTuple):
    """What the first section of the page says besides the verdict itself, in one language.

    Attributes:
        figures: labels of the figures, by their names, in the order in which they are shown.
        sentences: what the verdicts mean.
        check: text of the button that shows how to check the figures.
        look: what the command shows that asks the shop.
        again: what the command does that judges the run's files.
    """

    figures: Mapping[str, str]
    sentences: Mapping[str, str]
    check: str
    look: str
    again: str


ENGLISH = Words(
    {
        "buyers": "wanted one",
        "got": "got one",
        "sold_out": "sold out",
        "refused": "refused",
        "no_answer": "no answer",
        "units": "Units",
        "taken": "taken",
        "oversold": "oversold",
        "handovers": "lock grants",
        "rate": "Requests/s",
        "p99": "99 % within, ms",
        "faults": "Faults",
    },
    {outcome: sentence for outcome, (_, sentence) in SUMMARIES.items()},
    "Check it yourself",
    "The shop’s own figures, without this tool:",
    "Judge the recorded calls again, without a shop, from the folder above the run’s:",
)


def result(
    document: Mapping[str, Any], words: Words = ENGLISH, *, level: int = 1, check: bool = True
) -> Markup:
    """Return the first section of the page, which is the result card of the control room too.

    Args:
        document: the verdict, as `document` returns it.
        words: in the reader's language.
        level: of its heading.
        check: whether it says how to check the figures.
    """
    word, *seen = document["headline"]
    stopped = document.get("stopped", "")  # documents of earlier versions do not say it
    text = _TEMPLATES.get_template("result.html").render(
        document=document,
        words=words,
        word=f"{word} · {STOPPED}" if stopped else word,
        stopped=stopped,
        # The figures say the same, and each of them what it is.
        seen="" if document["result"] else " · ".join(seen),
        sentence=document["reason"] or words.sentences[document["verdict"]],
        level=level,
        check=check,
    )
    return Markup(text)


def write(path: str | Path, document: Mapping[str, Any], evidence: Evidence | None) -> None:
    """Write a run's page; without charts if there is no evidence.

    Args:
        path: the file.
        document: the verdict, as `document` returns it.
        evidence: gathered from the run's files, for the charts.
    """
    Path(path).write_text(render(document, evidence), encoding="utf-8")


def render(
    document: Mapping[str, Any], evidence: Evidence | None, now: Sequence[tuple[str, ...]] = ()
) -> str:
    """Return the page as HTML.

    Args:
        document: the verdict.
        evidence: gathered from the run's files, for the charts.
        now: of a run that goes on, its figures: what each is, its value, and what it means. The
            page is loaded again every two seconds then.
    """
    charts = Charts(evidence) if evidence else None
    counts, speed = document["counts"], document["speed"]
    template = _TEMPLATES.get_template("page.html")
    return template.render(
        document=document,
        now=now,
        word=document["headline"][0],
        first=result(document, check=not now),
        counts=meanings(counts) if counts else [],
        speed=Speed(speed["answers"], speed["seconds"], speed["p99"]).meaning if speed else "",
        loop="" if now else _loop(evidence),
        charts=charts.all if charts else [],
        rounds=[
            _round(number, played) for number, played in enumerate(document["rounds"], start=1)
        ],
        faults=[_fault(number, fault) for number, fault in enumerate(document["faults"], start=1)],
        not_judged=list(why_not(document["not_judged"])),
        answers=[
            (answer["call"], answer["answer"], _MEANING.get(answer["outcome"], ""), answer["count"])
            for answer in document["answers"]
        ],
        css=Markup(_text("uplot/uPlot.min.css") + _text("page.css") + _text("result/result.css")),
        js=Markup(_text("uplot/uPlot.iife.min.js") + _text("page.js")),
        values=_script(charts.values() if charts else {}),
    )


_MEANING = {"ok": "accepted", "fail": "refused", "info": "unknown"}


def _round(number: int, played: Mapping[str, Any]) -> tuple[Any, ...]:
    left = "–" if played["left"] is None else played["left"]
    broken = " ".join(played["broken"]) or played["verdict"]
    counts = (played["sold"], played["of"], played["orders"], left)
    answers = (played["answered_sold"], played["refused"], played["unknown"])
    return number, played["tried"], *counts, *answers, broken


def _fault(number: int, fault: Mapping[str, Any]) -> tuple[str, ...]:
    start, lasted = f"{fault['start']:.1f} s", f"{fault['seconds']:.1f} s"
    if fault["error"]:
        lasted, effect = "–", f"not injected: {fault['error']}"
    else:
        effect = fault["did"]
    return str(number), fault["fault"], start, lasted, effect


def _script(values: Mapping[str, Any]) -> Markup:
    """Return data for a script element, which no text in them can end."""
    return Markup(json.dumps(values, separators=(",", ":")).replace("<", "\\u003c"))


def _text(name: str) -> str:
    return (_HERE / name).read_text(encoding="utf-8")


def _loop(evidence: Evidence | None) -> str:
    if evidence is None:
        return ""
    if not evidence.open_loop:
        return CLOSED_LOOP
    late, due = evidence.late, evidence.due
    return f"{OPEN_LOOP} {number(late)} of {number(due)} requests began late."
