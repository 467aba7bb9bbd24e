"""Calls that are over, as they are reported to Locust, and their counts."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple


class Finished(NamedTuple):
    """A call that is over, for Locust.

    Attributes:
        op: what was asked.
        outcome: see `loadtest.history`.
        name: with the answer, such as `order: sold_out`.
        milliseconds: that it took.
        length: of the answer's body, in bytes.
        problem: what is wrong with the answer; None if a healthy shop may give it.
    """

    op: str
    outcome: str
    name: str
    milliseconds: float
    length: int
    problem: Exception | None


Report = Callable[[Finished], None]


class UnexpectedAnswer(Exception):
    """An answer that a healthy shop does not give."""


@dataclass(slots=True)
class Tally:
    """Purchases of one process, or of all of them.

    Attributes:
        run: name of the run that this belongs to.
        ok, fail, info: answers to purchases, see `loadtest.history`.
        finished: users that have played all their buyers.
        late: buyers of an open loop that began late, because every user was busy.
        unstarted: buyers of an open loop that were due before the end and never began.
        history: file in which all this is written down.
    """

    run: str = ""
    ok: int = 0
    fail: int = 0
    info: int = 0
    finished: int = 0
    late: int = 0
    unstarted: int = 0
    history: str = ""

    def counting(self, report: Report) -> Report:
        """Return a report that also counts the answers to purchases."""

        def tell(call: Finished) -> None:
            if call.op == "order":
                setattr(self, call.outcome, getattr(self, call.outcome) + 1)
            report(call)

        return tell

    def to_json(self) -> dict[str, Any]:
        """As a worker sends it to its master."""
        return asdict(self)

    @classmethod
    def sum(cls, tallies: Iterable[Tally]) -> Tally:
        """All of them together."""
        total = cls()
        for tally in tallies:
            for name in ("ok", "fail", "info", "finished", "late", "unstarted"):
                setattr(total, name, getattr(total, name) + getattr(tally, name))
        return total
