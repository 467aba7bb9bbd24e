"""The closing line of a run, and what its figures count; terminals and the report show the same."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from loadtest.checker import PASS
from loadtest.history import AGAIN, NEVER, OK, Operation

SUMMARIES = {
    "pass": ("PROVED", "All properties hold."),
    "fail": ("BROKEN", "At least one property does not hold."),
    "unknown": ("COULD NOT BE JUDGED", "Data for a verdict are missing. This is not a pass."),
}

HOLDS = "HOLDS"
"""The word for a pass of a shop that is seen from outside: a run that finds nothing is no proof."""

OPEN_LOOP = (
    "Open loop: buyers arrived independently of the shop's speed. Latency counts from the intended "
    "time of the request, so that queueing counts."
)
CLOSED_LOOP = (
    "Closed loop: each user waits for an answer before the next request, so a slow shop gets fewer "
    "requests. The percentiles describe requests that were sent, not buyers who would have arrived."
)

STOPPED = "stopped early"
"""In the closing line of a run that was ended before its buyers had finished."""

RESTOCK = "restock"
"""The call of a history that no buyer makes."""


class Speed(NamedTuple):
    """How a shop answered while the sale was on.

    Attributes:
        answers: requests of buyers that were answered, whatever the answer.
        seconds: from the first request of an accepted purchase to the last answer to a purchase.
        p99: the ms within which 99 of 100 were answered; in an open loop from when they were due.
    """

    answers: int
    seconds: float
    p99: float

    @property
    def rate(self) -> float:
        """Return the requests answered per second."""
        return self.answers / self.seconds

    @property
    def meaning(self) -> str:
        """Return a sentence that says what the rate counts."""
        return (
            f"{self.answers:,} requests of buyers were answered in the {self.seconds:.2f} s from "
            "the first accepted purchase to the last answer to a purchase, refusals included; "
            f"99 % of them within {self.p99:,.0f} ms."
        )


class Pace:
    """Collects the answers of a run in 16 bytes each, to count those given while the sale was on.

    Requests that repeat a key after the load has ended do not count.
    """

    def __init__(self) -> None:
        self._began, self._ended = array("q"), array("q")
        self._opened, self._closed = NEVER, 0

    def add(self, call: Operation) -> None:
        """Add a call of the history."""
        unanswered = call.end == NEVER or not call.status
        if unanswered or call.op == RESTOCK or call.client.startswith(AGAIN):
            return
        self._began.append(call.start if call.due is None else call.due)
        self._ended.append(call.end)
        if call.op == "order":
            self._closed = max(self._closed, call.end)
            if call.outcome == OK:
                self._opened = min(self._opened, call.start)

    def speed(self) -> Speed | None:
        """Return the speed; None if no purchase was accepted."""
        calls = zip(self._began, self._ended, strict=True)
        waits = sorted(
            ended - began for began, ended in calls if self._opened <= ended <= self._closed
        )
        if not waits:
            return None
        longest = waits[(len(waits) * 99 - 1) // 100]
        return Speed(len(waits), (self._closed - self._opened) / 1e9, longest / 1e6)


def headline(
    outcome: str, buyers: int, counts: Mapping[str, int], speed: Speed | None, faults: int
) -> list[str]:
    """Return the parts of the closing line.

    Args:
        outcome: pass, fail or unknown.
        buyers: that the run had; 0 if that is not known.
        counts: of the verdict; empty if there is none.
        speed: None if nothing was sold.
        faults: injected.
    """
    parts = [SUMMARIES[outcome][0]]
    if counts:
        sold = counts["held"] + counts["confirmed"]
        to = f" to {counted(buyers, 'buyer')}" if buyers else ""
        oversold, total = counts["oversold"], counts["total"]
        # Units that came back since do not undo it.
        at_once = " at one moment" if oversold and sold <= total else ""
        parts += [f"{sold:,} of {total:,} sold{to}", f"{oversold:,} oversold{at_once}"]
    if speed is not None:
        parts += [f"{speed.rate:,.0f} requests/s", f"p99 {speed.p99:,.0f} ms"]
    if faults:
        parts.append(f"{counted(faults, 'fault')} {'survived' if outcome == PASS else 'injected'}")
    return parts


def wrapped(parts: Iterable[str], width: int) -> Iterator[str]:
    """Yield the closing line; where it is too long, lines of whole parts."""
    line = ""
    for part in parts:
        longer = f"{line} · {part}" if line else part
        if line and len(longer) > width:
            yield line
            longer = part
        line = longer
    yield line


def meanings(counts: Mapping[str, int]) -> list[tuple[int, str]]:
    """Return the counts of a verdict, and what each counts."""
    return [
        (counts["orders"], "orders in the database"),
        (counts["held"] + counts["confirmed"], "units reserved or paid for"),
        (counts["available"], "units left"),
        (counts["ok"], "purchases accepted; a purchase and its retries count once"),
        (counts["fail"], "purchases refused"),
        (counts["sold_out"], "of the refused heard “sold out”"),
        (counts["info"], "purchases without an answer that says whether they were accepted"),
    ]


def counted(count: int, noun: str) -> str:
    """Return a count with its noun."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"
