"""Charts as SVG: a plot that stretches with the page, and labels beside it that do not.

Ours, because what a report needs is a few paths: a chart library would be most of the file, or a
heavy dependency of everybody who runs a proof.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from html import escape
from math import ceil, floor, log10

# The plot's own units; it is stretched to the width and height of the page's box.
WIDTH, HEIGHT = 1000.0, 100.0

Point = tuple[float, float]
# From a value to its height, 0 to 1.
Scale = Callable[[float], float]


@dataclass(frozen=True, slots=True)
class Key:
    """A line of the legend: a colour class of the stylesheet and what it stands for."""

    colour: str
    text: str


@dataclass(slots=True)
class Chart:
    """A figure: its title, its marks, its labels.

    Attributes:
        identity: by which the script finds its values.
        marks: SVG elements, from the back to the front.
        bands: SVG elements that lie over all of them.
        left: labels of the vertical axis, by height (0 to 1).
        below: labels of the horizontal axis, by place (0 to 1).
    """

    identity: str
    title: str
    keys: Sequence[Key]
    marks: list[str] = field(default_factory=list)
    left: list[tuple[float, str]] = field(default_factory=list)
    below: list[tuple[float, str]] = field(default_factory=list)
    note: str = ""
    bands: str = ""

    def html(self) -> str:
        """The figure."""
        grid = "".join(
            f'<line class="grid" x1="0" x2="{WIDTH:g}" y1="{_down(y)}" y2="{_down(y)}"/>'
            for y, _ in self.left
        )
        keys = "".join(
            f'<li><i class="{key.colour}"></i>{escape(key.text)} <b data-key="{number}"></b></li>'
            for number, key in enumerate(self.keys)
        )
        note = f'<p class="faint">{escape(self.note)}</p>' if self.note else ""
        return (
            f'<figure data-chart="{self.identity}"><figcaption><h3>{escape(self.title)}</h3>'
            f'<ul class="keys">{keys}</ul></figcaption><div class="plot">'
            f'<div class="left">{_labels(self.left, "bottom")}</div>'
            f'<svg viewBox="0 0 {WIDTH:g} {HEIGHT:g}" preserveAspectRatio="none" role="img" '
            f'aria-label="{escape(self.title)}">{grid}{"".join(self.marks)}{self.bands}</svg>'
            f'<div class="below">{_labels(self.below, "left")}</div></div>{note}</figure>'
        )


def area(upper: Sequence[Point], lower: Sequence[Point], colour: str) -> str:
    """What lies between two curves of places (0 to 1) and heights (0 to 1)."""
    edge = " L".join(_at(point) for point in (*upper, *reversed(lower)))
    return f'<path class="area {colour}" d="M{edge} Z"/>' if upper else ""


def line(points: Iterable[Point | None], colour: str) -> str:
    """A curve; it is broken where a point is missing."""
    path, pen = [], "M"
    for point in points:
        if point is None:
            pen = "M"
        else:
            # The line of no length makes a dot of a point that has no neighbours.
            path.append(f"{pen}{_at(point)}" + ("h0" if pen == "M" else ""))
            pen = "L"
    return f'<path class="line {colour}" d="{" ".join(path)}"/>'


def bar(left: float, right: float, height: float, colour: str, title: str) -> str:
    """A column from the ground up."""
    return (
        f'<rect class="{colour}" x="{left * WIDTH:.1f}" width="{(right - left) * WIDTH:.1f}" '
        f'y="{_down(height)}" height="{height * HEIGHT:.2f}"><title>{escape(title)}</title></rect>'
    )


def upright(place: float, colour: str, title: str) -> str:
    """A vertical line through the plot."""
    x = f"{place * WIDTH:.1f}"
    return (
        f'<line class="line {colour}" x1="{x}" x2="{x}" y1="0" y2="{HEIGHT:g}">'
        f"<title>{escape(title)}</title></line>"
    )


def stairs(points: Sequence[Point], end: float) -> list[Point]:
    """A curve that keeps each height until the next point, and the last until `end`."""
    steps: list[Point] = []
    for number, (x, y) in enumerate(points):
        until = points[number + 1][0] if number + 1 < len(points) else end
        steps += [(x, y), (until, y)]
    return steps


def ticks(top: float, *, most: int = 4) -> list[float]:
    """Round values from 0 up to at least `top`, a few of them."""
    if top <= 0:
        return [0.0, 1.0]
    rough = top / most
    power = 10.0 ** floor(log10(rough))
    step = next(power * n for n in (1, 2, 2.5, 5, 10) if power * n >= rough * 0.9999)
    return [step * n for n in range(ceil(top / step - 1e-9) + 1)]


def _labels(labels: Iterable[tuple[float, str]], side: str) -> str:
    return "".join(
        f'<span style="{side}:{place * 100:.2f}%">{escape(text)}</span>' for place, text in labels
    )


def _at(point: Point) -> str:
    return f"{point[0] * WIDTH:.1f},{_down(point[1])}"


def _down(height: float) -> str:
    """SVG counts from the top."""
    return f"{(1 - height) * HEIGHT:.2f}"
