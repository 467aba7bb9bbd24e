"""The state of a proof while it runs."""

from __future__ import annotations

from dataclasses import dataclass, field

from loadtest.checker.snapshot import Item


@dataclass(slots=True)
class Progress:
    """What is going on, for the terminal.

    Attributes:
        calls: by outcome, see :class:`Tally`.
        fault: what is being injected now; empty if nothing is.
        injected: number of faults so far.
        restocked: number of restocks so far.
        rate: calls per second over the last looks.
    """

    phase: str
    seconds: float = 0.0
    item: Item | None = None
    owed: int = 0
    calls: dict[str, int] = field(default_factory=dict)
    fault: str = ""
    injected: int = 0
    restocked: int = 0
    rate: float = 0.0
