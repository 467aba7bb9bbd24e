"""The lessons' chapters with their timelines for the documentation, as Markdown."""

from course.lesson import Lesson, Scenario, lessons
from course.report import cure_title, report
from course.simulator.history import Event
from course.simulator.timeline import as_text, rows

MARKER = "<!-- lessons -->"
"""In the document, where the chapters go."""


def with_chapters(document: str) -> str:
    """Return the document with a chapter per lesson."""
    if MARKER not in document:
        return document
    return document.replace(MARKER, "\n\n".join(map(_chapter, lessons())))


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
    played = report(scenario)
    return (
        f"### {text.title}\n\n{_timeline(played.broken.history)}\n\n{text.prose}\n\n"
        f"<details markdown><summary>The same schedule on {cure_title(scenario)}</summary>\n\n"
        f"{text.change}\n\n{_timeline(played.mended.history)}\n\n</details>"
    )


def _timeline(history: list[Event]) -> str:
    return f"```text\n{as_text(rows(history))}\n```"
