"""The charts of a run as SVG, over the same span of time: curves as paths for a page.

Our own, because a few paths in one offline file do not need a library (`docs/dependencies.md`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from math import ceil, floor, log10
from typing import Any

from loadtest.report.gather import Evidence, Stock

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


# The share of a chart for the final read: one part in this many.
_AFTER = 30
# Of the latency, with their names.
_PERCENTILES = ((0.5, "p50"), (0.9, "p90"), (0.99, "p99"), (0.999, "p99.9"))


def number(value: float) -> str:
    """Format a count or a rate."""
    return f"{value:,.0f}" if value >= 10 or value == int(value) else f"{value:.1f}"


def duration(milliseconds: float | None) -> str:
    """Format a time."""
    if milliseconds is None:
        return "–"
    if milliseconds >= 1000:
        return f"{milliseconds / 1000:.3g} s"
    return f"{milliseconds:.3g} ms"


@dataclass(frozen=True, slots=True)
class Span:
    """The span of time of all charts, in ns."""

    start: int
    end: int

    def place(self, moment: float) -> float:
        """Return the place of a moment, from 0 to 1."""
        return min(max((moment - self.start) / (self.end - self.start), 0.0), 1.0)

    def labels(self) -> list[tuple[float, str]]:
        """Return a label for each round second that fits."""
        seconds = (self.end - self.start) / 1e9
        marks = [tick for tick in ticks(seconds, most=5) if tick <= seconds * 1.001]
        return [(min(tick / seconds, 1.0), f"{tick:g} s") for tick in marks]


class Charts:
    """The charts of one run, and the values that the script shows at the pointer."""

    def __init__(self, evidence: Evidence) -> None:
        self._evidence = evidence
        self._timeline = evidence.purchases.timeline(evidence.start)
        # The final read is taken later, when all is at rest; it is shown in a strip after the end.
        after = (evidence.end - evidence.start) // _AFTER
        self._span = Span(evidence.start, evidence.end + max(after, 1))
        self.values: dict[str, Any] = {"seconds": (self._span.end - self._span.start) / 1e9}

    def all(self) -> list[Chart]:
        """Draw those for which there are data."""
        charts = self._stock(), self._rate(), self._latency()
        return [chart for chart in charts if chart]

    def _chart(self, identity: str, title: str, *keys: Key) -> Chart:
        return Chart(identity, title, keys, below=self._span.labels(), bands=self._bands())

    def _bands(self) -> list[Mark]:
        bands = []
        for order, fault in enumerate(self._evidence.faults, start=1):
            if not fault.error:
                left, right = self._span.place(fault.start), self._span.place(fault.end)
                right = max(right, left + 0.002)
                bands.append(bar(left, right, 1.0, "fault", f"{order}: {fault.fault}"))
        return bands

    def _stock(self) -> Chart | None:
        stock = self._evidence.stock
        if not stock:
            return None
        levels = [(each.confirmed, each.held, max(each.available, 0)) for each in stock]
        top = ticks(max(*(each.total for each in stock), *(sum(level) for level in levels), 1))
        keys = Key("confirmed", "paid for"), Key("held", "held"), Key("available", "available")
        chart = self._chart("stock", "Stock, in units", *keys)
        places = self._places(stock)
        _stack(chart, places, levels, top[-1], 1.0)
        totals = [(place, each.total / top[-1]) for place, each in zip(places, stock, strict=True)]
        chart.marks += [line(stairs(totals, 1.0), "total"), self._oversold(stock, top[-1])]
        chart.left = _left(top)
        chart.note = "The last step is the final read, when all was at rest."
        if any(each.held + each.confirmed > each.total for each in stock):
            chart.note += " Red: units that were sold but did not exist."
        self.values["stock"] = {
            "at": [round(place, 4) for place in places],
            "values": [list(values) for values in zip(*levels, strict=True)],
        }
        return chart

    def _places(self, stock: list[Stock]) -> list[float]:
        return [self._span.place(min(each.at, self._evidence.end)) for each in stock]

    def _oversold(self, stock: list[Stock], top: float) -> Mark:
        """Return the units sold above the total, in red."""
        upper, lower = [], []
        for place, each in zip(self._places(stock), stock, strict=True):
            total = each.total / top
            upper.append((place, max((each.held + each.confirmed) / top, total)))
            lower.append((place, total))
        return area(stairs(upper, 1.0), stairs(lower, 1.0), "oversold")

    def _rate(self) -> Chart:
        timeline = self._timeline
        seconds = timeline.width / 1e9
        rates = [tuple(count / seconds for count in each.counts) for each in timeline.bins]
        top = ticks(max((sum(rate) for rate in rates), default=0))
        keys = Key("ok", "accepted"), Key("fail", "refused"), Key("info", "unknown")
        chart = self._chart("rate", "Answers to purchases, per second", *keys)
        edges = [self._span.place(timeline.origin + n * timeline.width) for n in range(len(rates))]
        end = self._span.place(timeline.origin + len(rates) * timeline.width)
        _stack(chart, edges, rates, top[-1], end)
        chart.left = _left(top)
        self.values["rate"] = {
            "at": [round(place, 4) for place in edges],
            "values": [[round(rate[layer], 1) for rate in rates] for layer in range(3)],
        }
        return chart

    def _latency(self) -> Chart | None:
        timeline = self._timeline
        seen = [b.latencies for b in timeline.bins if b.latencies.count]
        if not seen:
            return None
        low = floor(log10(max(min(each.percentile(0.5) or 1 for each in seen), 0.1)))
        high = max(ceil(log10(max(each.percentile(0.99) or 1 for each in seen))), low + 1)
        keys = Key("p50", "half below"), Key("p99", "99 of 100 below")
        meant = ", from the intended time of the request" if self._evidence.open_loop else ""
        chart = self._chart("latency", f"Latency of purchases{meant}", *keys)
        middles = [
            self._span.place(timeline.origin + (n + 0.5) * timeline.width)
            for n in range(len(timeline.bins))
        ]
        shown = []
        for key, share in zip(keys, (0.5, 0.99), strict=True):
            curve = [b.latencies.percentile(share) for b in timeline.bins]
            points = [
                None if value is None else (place, _log_place(value, low, high))
                for place, value in zip(middles, curve, strict=True)
            ]
            chart.marks.append(line(points, key.colour))
            shown.append([None if value is None else duration(value) for value in curve])
        chart.left = [
            ((power - low) / (high - low), duration(10.0**power)) for power in range(low, high + 1)
        ]
        chart.note = f"All together: {_percentiles(self._evidence)}."
        self.values["latency"] = {"at": [round(place, 4) for place in middles], "values": shown}
        return chart


def _stack(
    chart: Chart,
    places: Sequence[float],
    levels: Sequence[tuple[float, ...]],
    top: float,
    end: float,
) -> None:
    """Add stacked areas, one per key of the chart."""
    lower: list[Point] = [(place, 0.0) for place in places]
    for layer, key in enumerate(chart.keys):
        upper = [
            (place, sum(level[: layer + 1]) / top)
            for place, level in zip(places, levels, strict=True)
        ]
        chart.marks.append(area(stairs(upper, end), stairs(lower, end), key.colour))
        lower = upper


def _percentiles(evidence: Evidence) -> str:
    latencies = evidence.purchases.latencies
    shares = (f"{name} {duration(latencies.percentile(share))}" for share, name in _PERCENTILES)
    return f"{', '.join(shares)}, longest {duration(latencies.longest)}"


def _left(values: list[float]) -> list[tuple[float, str]]:
    return [(value / values[-1], number(value)) for value in values]


def _log_place(value: float, low: float, high: float) -> float:
    return min(max((log10(max(value, 1e-3)) - low) / (high - low), 0.0), 1.0)
