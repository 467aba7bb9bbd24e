"""The timelines in the course, `docs/locks.md`.

The prose is written by hand.  A line such as `<!-- timeline: setnx-expire/crash/broken -->` is
followed by a block that this module writes: `broken` and `mended` are timelines, `mermaid` is the
broken one as a diagram.  A test compares the document with the simulator's current output.
"""

from __future__ import annotations

import re
from pathlib import Path

from lab.locks.lessons import find
from lab.locks.simulator.lesson_report import Report, reports
from lab.locks.simulator.timeline import as_mermaid, as_text

BLOCK = re.compile(
    r"<!-- timeline: (?P<lesson>[\w-]+)/(?P<scenario>[\w-]+)/(?P<part>broken|mended|mermaid) -->\n"
    r"(?:```.*?\n```\n)?",
    re.DOTALL,
)
WIDTH = 100


def with_current_timelines(document: str) -> str:
    """Return the document with the current timelines.

    Raises `KeyError` for a lesson or scenario that does not exist.
    """
    return BLOCK.sub(
        lambda found: _block(found["lesson"], found["scenario"], found["part"]), document
    )


def update_document(path: Path) -> bool:
    """Write the current timelines into the document; return whether it changed."""
    before = path.read_text(encoding="utf-8")
    after = with_current_timelines(before)
    if after == before:
        return False
    path.write_text(after, encoding="utf-8")
    return True


def _block(lesson: str, scenario: str, part: str) -> str:
    played = _find(lesson, scenario)
    if part == "mermaid":
        language, body = "mermaid", as_mermaid(played.broken_rows())
    else:
        lines = played.broken_rows() if part == "broken" else played.mended_rows()
        language, body = "text", as_text(lines, width=WIDTH)
    return f"<!-- timeline: {lesson}/{scenario}/{part} -->\n```{language}\n{body}\n```\n"


def _find(lesson: str, scenario: str) -> Report:
    for played in reports(find(lesson)):
        if played.scenario.slug == scenario:
            return played
    raise KeyError(f"lesson {lesson} has no scenario {scenario}")
