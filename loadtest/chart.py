"""Charts as SVG: curves as paths for a page.

Our own, because a few paths in one offline file do not need a library (`docs/dependencies.md`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
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
