"""Charts as SVG: bars in panels as a picture of its own, curves as paths for a page.

Our own, because a few paths in one offline file do not need a library (`docs/dependencies.md`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from math import ceil, floor, log10

# The plot's coordinates; the page stretches them to the box.
WIDTH, HEIGHT = 1000.0, 100.0

Point = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Key:
    """An entry of the legend: a colour class of the stylesheet and its text."""

    colour: str
    text: str


@dataclass(frozen=True, slots=True)
class Mark:
    """A path with its classes of the stylesheet, and a title for the pointer."""

    css: str
    path: str
    title: str = ""


@dataclass(slots=True)
class Chart:
    """A figure, which `loadtest/report/page.html` renders.

    Attributes:
        identity: identifies its values to the script.
        marks: from the back to the front.
        bands: marks over all others.
        left: labels of the vertical axis, by height (0 to 1).
        below: labels of the horizontal axis, by place (0 to 1).
    """

    identity: str
    title: str
    keys: Sequence[Key]
    marks: list[Mark] = field(default_factory=list)
    left: list[tuple[float, str]] = field(default_factory=list)
    below: list[tuple[float, str]] = field(default_factory=list)
    note: str = ""
    bands: list[Mark] = field(default_factory=list)


def area(upper: Sequence[Point], lower: Sequence[Point], colour: str) -> Mark:
    """Return the area between two curves of places (0 to 1) and heights (0 to 1)."""
    edge = " L".join(_at(point) for point in (*upper, *reversed(lower)))
    return Mark(f"area {colour}", f"M{edge} Z" if upper else "")


def line(points: Iterable[Point | None], colour: str) -> Mark:
    """Return a curve, interrupted where a point is missing."""
    path, pen = [], "M"
    for point in points:
        if point is None:
            pen = "M"
        else:
            # A line of no length shows a point without neighbours as a dot.
            path.append(f"{pen}{_at(point)}" + ("h0" if pen == "M" else ""))
            pen = "L"
    return Mark(f"line {colour}", " ".join(path))


def bar(left: float, right: float, height: float, colour: str, title: str) -> Mark:
    """Return a column from the bottom up."""
    corners = (left, height), (right, height), (right, 0.0)
    return Mark(colour, f"M{_at((left, 0.0))} L{' L'.join(map(_at, corners))} Z", title)


def upright(place: float, colour: str, title: str) -> Mark:
    """Return a vertical line through the plot."""
    return Mark(f"line {colour}", f"M{_at((place, 0.0))} L{_at((place, 1.0))}", title)


def stairs(points: Sequence[Point], end: float) -> list[Point]:
    """Return a curve that keeps each height until the next point, and the last until `end`."""
    steps: list[Point] = []
    for number, (x, y) in enumerate(points):
        until = points[number + 1][0] if number + 1 < len(points) else end
        steps += [(x, y), (until, y)]
    return steps


def ticks(top: float, *, most: int = 4) -> list[float]:
    """Return a few round values from 0 up to at least `top`."""
    if top <= 0:
        return [0.0, 1.0]
    rough = top / most
    power = 10.0 ** floor(log10(rough))
    step = next(power * n for n in (1, 2, 2.5, 5, 10) if power * n >= rough * 0.9999)
    return [step * n for n in range(ceil(top / step - 1e-9) + 1)]


def _at(point: Point) -> str:
    x, height = point
    return f"{x * WIDTH:.1f},{(1 - height) * HEIGHT:.2f}"  # SVG's y axis points down


# The measures of the panels, in pixels.
PAGE, BAR, GAP, LABEL, MARGIN = 860, 18, 8, 190, 28

STYLE = """
  text { font: 13px system-ui, sans-serif; fill: #24292f }
  .title { font-size: 19px; font-weight: 600 } .sub { fill: #57606a }
  .head { font-weight: 600 } .bar { fill: #b6bec9 } .ours { fill: #0969da }
  .limit { fill: #d0d7de } .bad { fill: #cf222e } .page { fill: #ffffff }
  .cut { stroke: #ffffff; stroke-width: 5 }
  @media (prefers-color-scheme: dark) {
    text { fill: #e6edf3 } .sub { fill: #8d96a0 } .bar { fill: #57606a } .ours { fill: #4493f8 }
    .limit { fill: #373e47 } .bad { fill: #f85149 } .page { fill: #0d1117 }
    .cut { stroke: #0d1117 }
  }
"""


@dataclass(frozen=True)
class Panel:
    """One figure for all contenders.

    Attributes:
        title: the question.
        hint: unit, and which way is better.
        values: name and figure of each, in the order of the bars.
        show: the figure as text.
    """

    title: str
    hint: str
    values: list[tuple[str, float]]
    show: Callable[[float], str]


def draw(title: str, about: str, panels: Sequence[Panel], kinds: Mapping[str, str]) -> str:
    """Draw panels below each other; reads in light and in dark.

    Args:
        title: of the whole.
        about: a line below it.
        panels: what is shown.
        kinds: "ours", "limit" or "bad" for names that are to stand out.

    Returns:
        The SVG document.
    """
    parts = [
        f'<text class="title" x="{MARGIN}" y="40">{escape(title)}</text>',
        f'<text class="sub" x="{MARGIN}" y="62">{escape(about)}</text>',
    ]
    top = 96
    for panel in panels:
        drawn, height = _panel(panel, top, kinds)
        parts += drawn
        top += height
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {PAGE} {top}" width="{PAGE}" '
        f'height="{top}" role="img" aria-label="{escape(title)}">'
    )
    page = f'<rect class="page" width="{PAGE}" height="{top}" rx="8"/>'
    return "\n".join([head, f"<style>{STYLE}</style>", page, *parts, "</svg>", ""])


def _scale(values: Sequence[float]) -> float:
    """Return the value that fills the width; one outlier must not flatten the other bars."""
    *_, second, longest = [0.0, *sorted(values)]
    return longest if longest <= 3 * second or not second else 1.5 * second


def _panel(panel: Panel, top: int, kinds: Mapping[str, str]) -> tuple[list[str], int]:
    hint = f'<tspan class="sub" dx="10" font-weight="400">{escape(panel.hint)}</tspan>'
    title = f"{escape(panel.title)}{hint}"
    parts = [f'<text class="head" x="{MARGIN}" y="{top}">{title}</text>']
    longest = _scale([value for _, value in panel.values]) or 1.0
    room = PAGE - LABEL - 2 * MARGIN - 80  # the figure is to the right of the bar
    for place, (name, value) in enumerate(panel.values):
        y = top + 14 + place * (BAR + GAP)
        kind = kinds.get(name, "bar")
        x, middle = MARGIN + LABEL, y + BAR - 5
        width = max(1.5, room * min(1.0, value / longest))
        parts += [
            f'<text x="{x - 10}" y="{middle}" text-anchor="end">{escape(name)}</text>',
            f'<rect class="{kind}" x="{x}" y="{y}" width="{width:.1f}" height="{BAR}" rx="3"/>',
            f'<text x="{x + width + 8:.1f}" y="{middle}">{escape(panel.show(value))}</text>',
        ]
        if value > longest:  # a gap shows that the bar is cut off
            cut = x + width - 30
            parts.append(f'<path class="cut" d="M{cut:.0f} {y + BAR + 2}l6 -{BAR + 4}"/>')
    return parts, 14 + len(panel.values) * (BAR + GAP) + 36
