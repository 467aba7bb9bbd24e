"""A verdict on a terminal: one form for every run, made from its document."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from loadtest.checker import FAIL, PASS, Rate
from loadtest.checker.properties.recovery import KINDS
from loadtest.checker.report.document import why_not
from loadtest.checker.report.headline import Speed, meanings, wrapped

EXAMPLES = 3
"""Violations shown of a property; the page has all."""

WIDE = 200
"""Columns of a line that nobody wraps, in a file or a pipe."""

FAINT = "faint"


class Line(NamedTuple):
    """A line.

    Attributes:
        text: of the line.
        style: a verdict, or `FAINT`; empty for plain text.
    """

    text: str
    style: str = ""


def lines(document: Mapping[str, Any], width: int = WIDE) -> Iterator[Line]:
    """Yield a verdict, the closing line first; only commands may be wider.

    Args:
        document: the document.
        width: columns.
    """
    parts = (_closing(document, width), _about(document, width), _rounds(document, width))
    for part in (
        *parts,
        _properties(document, width),
        _faults(document, width),
        _counts(document, width),
    ):
        yield from part
    for text in document["remarks"]:
        yield from _wrapped(text, width, 2)
    for text in (*(rare["text"] for rare in document["not_seen"]), *document["left_open"]):
        yield from _wrapped(f"Not seen: {text}.", width, 2, FAINT)
    yield from _smallest(document, width)
    if document["check"]["look"]:
        yield Line(f"See the books: {document['check']['look']}", FAINT)
    if document["repeat"]:
        yield Line(f"Again: {document['repeat']}", FAINT)


def verdict_last(document: Mapping[str, Any]) -> Iterator[str]:
    """Yield the same lines for a program whose last line is to be the verdict."""
    closing = list(_closing(document, WIDE))
    yield from (line.text for line in list(lines(document))[len(closing) :])
    yield from (line.text for line in closing)


def _closing(document: Mapping[str, Any], width: int) -> Iterator[Line]:
    yield from (Line(text, document["verdict"]) for text in wrapped(document["headline"], width))


def _about(document: Mapping[str, Any], width: int) -> Iterator[Line]:
    if document["reason"]:
        yield from _wrapped(document["reason"], width, 2, "unknown")
    if document["stopped"]:
        yield from _wrapped(document["stopped"], width, 2)
    facts = "; ".join(f"{name} {value}" for name, value in document["facts"].items())
    yield from _wrapped(f"{document['title']}{'; ' if facts else ''}{facts}", width, 2, FAINT)


def _rounds(document: Mapping[str, Any], width: int) -> Iterator[Line]:
    """Yield a line per round of a rush, under two lines of headings."""
    if not document["rounds"]:
        return
    yield Line(f"{'':15}{'the shop’s books':^25}   {'buyers were answered':^20}")
    headings = ("sold", "of", "orders", "left", "sold", "refused", "unknown")
    row = "{:>5} {:<8} {:>6} {:>5} {:>6} {:>6}   {:>5} {:>7} {:>7}  {}".format
    yield Line(row("round", "tried", *headings, "broken"))
    for number, played in enumerate(document["rounds"], start=1):
        left = "–" if played["left"] is None else played["left"]
        units = (played["sold"], played["of"], played["orders"], left)
        answers = (played["answered_sold"], played["refused"], played["unknown"])
        broken = " ".join(played["broken"]) or played["verdict"]
        yield from _wrapped(row(number, played["tried"], *units, *answers, broken), width, 66)


def _properties(document: Mapping[str, Any], width: int) -> Iterator[Line]:
    for finding in document["properties"]:
        verdict = finding["verdict"]
        text = f"{finding['id']:>4} {verdict.upper():8}{finding['name']}: {finding['detail']}"
        yield from _wrapped(text, width, 13, verdict if verdict != PASS else "")
        if verdict != PASS:
            for example in finding["evidence"][:EXAMPLES]:
                yield from _wrapped(f"{'':13}· {example}", width, 15, verdict)
    for text in why_not(document["not_judged"]):
        yield from _wrapped(text, width, 2, FAINT)


def _faults(document: Mapping[str, Any], width: int) -> Iterator[Line]:
    """Yield which faults there were, how soon the shop sold again after each, and how well."""
    names = dict.fromkeys(fault["fault"] for fault in document["faults"])
    if not names:
        return
    row = "{:<28} {:>5} {:>14}" + "".join(f" {{:>{len(kind) + 8}}}" for kind in KINDS)
    yield Line(row.format("fault", "times", "first ok (s)", *(f"{k} settled" for k in KINDS)))
    for name in names:
        same = [fault for fault in document["faults"] if fault["fault"] == name]
        acted = [fault for fault in same if not fault["error"]]
        waits = [fault["recovery"] for fault in acted if fault["recovery"] is not None]
        longest = f"{max(waits):.2f}" if waits else "–"
        rates = (_worst(fault["settled"].get(kind) for fault in acted) for kind in KINDS)
        yield Line(row.format(name, len(acted), longest, *rates))
        for fault in same:
            if fault["error"]:
                yield from _wrapped(f"  not injected: {fault['error']}", width, 4, "unknown")


def _worst(rates: Iterable[Mapping[str, int] | None]) -> str:
    """Return the lowest share of good answers."""
    known = [Rate(rate["answers"], rate["bad"]) for rate in rates if rate and rate["answers"]]
    return str(max(known, key=lambda rate: rate.bad / rate.answers)) if known else "–"


def _counts(document: Mapping[str, Any], width: int) -> Iterator[Line]:
    if document["rounds"] or not document["counts"]:
        return
    for number, meaning in meanings(document["counts"]):
        yield Line(f"{number:>8,}  {meaning}")
    if (lost := document["counts"]["lost"]) > 0:
        yield Line(f"{lost:>8,}  acknowledged orders lost", FAIL)
    if speed := document["speed"]:
        meaning = Speed(speed["answers"], speed["seconds"], speed["p99"]).meaning
        yield from _wrapped(meaning, width, 2, FAINT)


def _smallest(document: Mapping[str, Any], width: int) -> Iterator[Line]:
    """Yield the fewest calls that show what is broken."""
    for identity, history in document["histories"].items():
        before = f", after {history['before']:,} accepted purchases" if history["before"] else ""
        yield Line(f"The smallest history that shows {identity}{before}:")
        for step in history["rows"]:
            text = f"  {step['at']:>10}  {step['buyer']:>6}  {step['asked']} → {step['answered']}"
            yield from _wrapped(text, width, 22)


def _wrapped(text: str, width: int, indent: int, style: str = "") -> Sequence[Line]:
    found = textwrap.wrap(
        text, width, subsequent_indent=" " * min(indent, width // 2), break_on_hyphens=False
    )
    return [Line(line, style) for line in found]
