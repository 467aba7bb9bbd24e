"""The lessons' chapters and timelines for the documentation, as Markdown and SVG."""

from bisect import bisect_left
from html import escape
from typing import Any

from course.lesson import Lesson, Scenario, lessons, scenarios
from course.position import Bar, Position, position
from course.report import cure_title, report
from course.simulator.timeline import MARKS

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


WIDTH, ROW, TOP, LEFT, LETTER = 880, 19, 34, 104, 6.7

STYLE = """text{font:11px ui-monospace,Menlo,Consolas,monospace;fill:#24292f}
.t{fill:#6e7781;text-anchor:end}.h{font-weight:700;font-size:13px}.q{fill:#6e7781}
.v,.f{font-weight:700}.v{fill:#a3122f}.f{fill:#8a4700}.bad{fill:#fde3e6}.k{fill:none;stroke:#8a7a3a}
.a{fill:#1b62b8}.b{fill:#b04a00}.c{fill:#6d3fb4}.o{fill:#5d6066}.l{stroke:#d0d7de}
@media(prefers-color-scheme:dark){text{fill:#e6edf3}.t,.q{fill:#9198a1}.v{fill:#ff9aa9}.f{fill:#ffc37a}
.bad{fill:#451722}.k{stroke:#d3c27a}.a{fill:#7db8ff}.b{fill:#ffab66}.c{fill:#c9a6ff}.o{fill:#b9bcc4}
.l{stroke:#3d444d}}"""

COLOURS = {"A": "a", "B": "b", "C": "c"}


def picture(position: Position) -> str:
    """Return the picture of everything that has happened until the position."""
    names = [client.name for client in position.clients]
    lane = (WIDTH - LEFT) / len(names)
    lefts = {name: LEFT + round(place * lane) for place, name in enumerate(names)}
    lines = position.history
    height = TOP + ROW * len(lines) + 6
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}">',
        f"<style>{STYLE}</style>",
        '<text class="q" x="84" y="18" text-anchor="middle">key</text>',
    ]
    for name, left in lefts.items():
        parts.append(f'<text class="h {_colour(name)}" x="{left + 14}" y="18">{name}</text>')
        parts.append(f'<path class="l" d="M{left + 4} 26V{height - 4}"/>')
    times = [line["at"] for line in lines]
    for number, line in enumerate(lines):
        if line["kind"] == "violation":
            parts.append(
                f'<rect class="bad" y="{_y(number) + 2}" width="{WIDTH}" height="{ROW - 2}"/>'
            )
    servers = {bar.who for bar in position.bars if bar.kind == "key"}
    for bar in position.bars:
        if bar.kind == "client" or len(servers) == 1:  # five keys side by side say nothing
            end = height - 6 if bar.end >= position.now else None
            parts.append(_bar(bar, times, lefts, end))
    for number, line in enumerate(lines):
        parts += _row(line, _y(number) + 14, lefts)
    return "\n".join([*parts, "</svg>"]) + "\n"


def _y(row: int) -> int:
    return TOP - 4 + ROW * row


def _colour(name: str) -> str:
    return COLOURS.get(name, "o")


def _bar(bar: Bar, times: list[float], lefts: dict[str, int], end: int | None) -> str:
    begin = _y(bisect_left(times, bar.begin)) + 3
    if end is None:
        end = max(_y(bisect_left(times, bar.end)) + (12 if bar.end in times else 0), begin + 8)
    size = f'y="{begin}" height="{end - begin}" rx="2"'
    if bar.kind == "client":
        return f'<rect class="{_colour(bar.who)}" x="{lefts[bar.who]}" width="8" {size}/>'
    return f'<rect class="k" x="80" width="8" {size}/>'


def _row(line: dict[str, Any], y: int, lefts: dict[str, int]) -> list[str]:
    at = line["at"]
    if line["kind"] == "more":
        text = f"⋮ {line['count']} more like these, until {at:.3f}"
        return [f'<text class="q" x="{LEFT + 14}" y="{y}">{text}</text>']
    left = lefts.get(line["client"], LEFT) + 14
    kind = {"violation": "v", "fault": "f", "sleep": "q", "note": "q"}.get(line["kind"], "")
    text = MARKS.get(line["kind"], "") + line["what"]
    if not line["client"]:
        text = f"{line['server']} {line['what']}"
    if line["kind"] == "violation":
        left = LEFT + 14
    answer = f" ⇒ {line['answer']}" if line["answer"] else ""
    room = int((WIDTH - left) / LETTER) - min(len(answer), 18)
    text = _fit(text, room) + _fit(answer, 18 + max(0, room - len(text)))
    css = f' class="{kind}"' if kind else ""
    return [
        f'<text class="t" x="70" y="{y}">{at:.3f}</text>',
        f'<text{css} x="{left}" y="{y}">{escape(text, quote=False)}</text>',
    ]


def _fit(text: str, room: int) -> str:
    return text if len(text) <= room else text[: room - 1] + "…"
