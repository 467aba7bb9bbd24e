"""The charts of a run as data, over the same span of time; `page.js` draws them with uPlot."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from loadtest.checker.report.gather import Evidence, Stock, Timeline

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
class Curve:
    """A curve of a chart.

    Attributes:
        name: in the legend.
        colour: a colour of the stylesheet.
        values: one for each moment; None where there is nothing to show.
    """

    name: str
    colour: str
    values: Sequence[float | None]


@dataclass(frozen=True, slots=True)
class Chart:
    """A chart.

    Attributes:
        identity: its element in the page.
        title: in words, with the unit.
        at: the moments of its values, in seconds since the run's first call.
        curves: from the bottom up.
        stacked: whether the curves stand on each other, and keep a value until the next one.
        limit: a line that the stack must not pass without the last curve; None for none.
        logarithmic: whether the vertical axis is.
        note: below it.
    """

    identity: str
    title: str
    at: Sequence[float]
    curves: Sequence[Curve]
    stacked: bool = True
    limit: Sequence[float] | None = None
    logarithmic: bool = False
    note: str = ""


class Charts:
    """The charts of one run.

    Attributes:
        all: those for which there are data.
    """

    def __init__(self, evidence: Evidence) -> None:
        self._evidence = evidence
        # The final read is taken later, when all is at rest; it is shown shortly after the end.
        after = (evidence.end - evidence.start) // _AFTER
        self._end = evidence.end + max(after, 1)
        timeline = evidence.purchases.timeline(evidence.start)
        charts = self._stock(), self._rate(timeline), self._latency(timeline)
        self.all = [chart for chart in charts if chart is not None]

    def values(self) -> dict[str, Any]:
        """Return what the page's script draws."""
        return {
            "seconds": self._seconds(self._end),
            "charts": [asdict(chart) for chart in self.all],
            "faults": list(self._faults()),
        }

    def _seconds(self, moment: float) -> float:
        return round((moment - self._evidence.start) / 1e9, 4)

    def _faults(self) -> Iterator[dict[str, Any]]:
        for order, fault in enumerate(self._evidence.faults, start=1):
            if not fault.error:
                start, end = self._seconds(fault.start), self._seconds(fault.end)
                yield {"name": f"{order}: {fault.fault}", "start": start, "end": end}

    def _stock(self) -> Chart | None:
        stock = self._evidence.stock
        if not stock:
            return None
        last = self._evidence.end
        # The final read lasts until the end of the chart.
        at = [self._seconds(min(reading.at, last)) for reading in stock] + [
            self._seconds(self._end)
        ]
        stock = [*stock, stock[-1]]
        note = "The last step is the final read, when all was at rest."
        if any(_oversold(reading) for reading in stock):
            note += " Red: units that were sold but did not exist."
        curves = (
            Curve("paid for", "blue", [reading.confirmed for reading in stock]),
            Curve("held", "sky", [reading.held for reading in stock]),
            Curve("available", "pale", [max(reading.available, 0) for reading in stock]),
        )
        limit = [reading.total for reading in stock]
        return Chart("stock", "Stock, in units", at, curves, limit=limit, note=note)

    def _rate(self, timeline: Timeline) -> Chart | None:
        if not any(sum(interval.counts) for interval in timeline.bins):
            return None
        seconds = timeline.width / 1e9
        names = (("accepted", "blue"), ("refused", "orange"), ("unknown", "red"))
        curves = [
            Curve(
                name,
                colour,
                [round(interval.counts[layer] / seconds, 1) for interval in timeline.bins],
            )
            for layer, (name, colour) in enumerate(names)
        ]
        at = [
            self._seconds(timeline.origin + number * timeline.width)
            for number in range(len(timeline.bins))
        ]
        return Chart("rate", "Answers to purchases, per second", at, curves)

    def _latency(self, timeline: Timeline) -> Chart | None:
        if not any(interval.latencies.count for interval in timeline.bins):
            return None
        meant = ", from the intended time of the request" if self._evidence.open_loop else ""
        names = (("half below", "blue", 0.5), ("99 of 100 below", "violet", 0.99))
        curves = [
            Curve(
                name, colour, [interval.latencies.percentile(share) for interval in timeline.bins]
            )
            for name, colour, share in names
        ]
        at = [
            self._seconds(timeline.origin + (number + 0.5) * timeline.width)
            for number in range(len(timeline.bins))
        ]
        return Chart(
            "latency",
            f"Latency of purchases{meant}, in ms",
            at,
            curves,
            stacked=False,
            logarithmic=True,
            note=f"All together: {_percentiles(self._evidence)}.",
        )


def _oversold(stock: Stock) -> bool:
    return stock.held + stock.confirmed > stock.total


def _percentiles(evidence: Evidence) -> str:
    latencies = evidence.purchases.latencies
    shares = (f"{name} {duration(latencies.percentile(share))}" for share, name in _PERCENTILES)
    return f"{', '.join(shares)}, longest {duration(latencies.longest)}"
