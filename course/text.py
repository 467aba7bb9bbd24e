"""A lesson's text: `README.md` of its folder, in English, then in Chinese.

# The title

What the lock is, and its flaw.

## crash: The title of the flaw whose schedule has this name

> What the lock that fixes it does differently.

What happens, and why.

## Exercise

The task, in a line.

## Hint

The hint, in a line.
"""

import re
from dataclasses import dataclass
from html import escape
from pathlib import Path

CHINESE = "<!-- 中文 -->"
"""Stands before the Chinese part."""

HEADING = re.compile(r"^(#{1,2}) (?:([a-z-]+): )?(.+)$", re.MULTILINE)
CHANGE = re.compile(r"\A(?:> ?.*\n?)+")


@dataclass(frozen=True, slots=True)
class FlawText:
    """The text of one flaw; `change`: what the lock that fixes it does differently."""

    title: str
    change: str
    prose: str


@dataclass(frozen=True, slots=True)
class Text:
    """A lesson's text in one language; `flaws` by the name of their schedule."""

    title: str
    intro: str
    flaws: dict[str, FlawText]
    task: str
    hint: str


def read(path: Path) -> dict[str, Text]:
    """Return a file's text, "en" and "zh"; `ValueError` if it does not have the form."""
    english, _, chinese = path.read_text(encoding="utf-8").partition(CHINESE)
    return {"en": _parse(path, english), "zh": _parse(path, chinese)}


def _parse(path: Path, text: str) -> Text:
    _, *parts = HEADING.split(text)
    pieces = list(zip(parts[1::4], parts[2::4], map(str.strip, parts[3::4]), strict=True))
    if len(pieces) < 3 or any(slug for slug, *_ in (pieces[0], *pieces[-2:])):
        raise ValueError(f"{path}: not a title, flaws, an exercise and a hint")
    (_, title, intro), *flaws, (_, _, task), (_, _, hint) = pieces
    return Text(title, intro, {slug: _flaw(name, body) for slug, name, body in flaws}, task, hint)


def as_html(prose: str) -> str:
    """Return prose as HTML: paragraphs, code, emphasis and links."""
    text = escape(prose, quote=False)
    for pattern, replacement in (
        (r"`([^`]+)`", r"<code>\1</code>"),
        (r"\*\*(.+?)\*\*", r"<strong>\1</strong>"),
        (r"\*(.+?)\*", r"<em>\1</em>"),
        (r"\[([^\]]+)\]\(([^)]+)\)", r'<a href="\2">\1</a>'),
    ):
        text = re.sub(pattern, replacement, text, flags=re.DOTALL)
    return "".join(f"<p>{paragraph}</p>" for paragraph in text.split("\n\n"))


def _flaw(title: str, body: str) -> FlawText:
    found = CHANGE.match(body)
    change = " ".join(line.lstrip("> ") for line in found[0].splitlines()) if found else ""
    return FlawText(title, change, CHANGE.sub("", body).strip())
