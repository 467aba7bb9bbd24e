"""The course's chapters in docs/locks.md, and their pictures, for the site of the documentation."""

from __future__ import annotations

from course.lesson import Lesson, Scenario, lessons, scenarios
from course.picture import picture
from course.position import position
from course.report import cure_title, report

MARKER = "<!-- lessons -->"
"""In the document, where the chapters go."""


def with_chapters(document: str) -> str:
    """Return the document with a chapter per lesson."""
    return document.replace(MARKER, "\n\n".join(map(_chapter, lessons())))


def pictures() -> dict[str, str]:
    """Return the pictures of all chapters, by their path beside the document."""
    found = {}
    for scenario in scenarios():
        played = report(scenario)
        found[_path(scenario)] = picture(position(scenario, played.broken.moves))
        fixed = position(scenario, played.mended.moves, mended=True)
        found[_path(scenario, "-fixed")] = picture(fixed)
    return found


def _chapter(lesson: Lesson) -> str:
    text = lesson.text["en"]
    code = (lesson.folder / "lock.py").read_text(encoding="utf-8").strip()
    return "\n\n".join(
        [
            f"## {lesson.number}. {text.title}",
            text.intro,
            f"```python\n{code}\n```",
            *map(_flaw, lesson.scenarios),
            f"**Exercise.** {text.task}",
        ]
    )


def _flaw(scenario: Scenario) -> str:
    text = scenario.lesson.text["en"].flaws[scenario.flaw.slug]
    fixed = f"The same schedule on {cure_title(scenario)}"
    return (
        f"### {text.title}\n\n![{text.title}]({_path(scenario)})\n\n{text.prose}\n\n"
        f"<details markdown><summary>{fixed}</summary>\n\n{text.change}\n\n"
        f"![{fixed}]({_path(scenario, '-fixed')})\n\n</details>"
    )


def _path(scenario: Scenario, suffix: str = "") -> str:
    return f"locks/{scenario.id.replace('/', '-')}{suffix}.svg"
