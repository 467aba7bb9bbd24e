"""What happens to a sale while buyers want it: restocks, pauses, other prices, closings."""

from __future__ import annotations

import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple, Self

from loadtest.checker.snapshot import Terms
from loadtest.full_shop import FullShop, ShopRefused
from loadtest.history import INFO, OK, Operation, Recorder

# Seconds that the item stays empty, so that buyers are told so and those who give up can leave.
EMPTY = 1.5

LOOK = 0.5
"""Seconds between two looks at the stock."""

PLENTY_LOOK = 0.1
"""Seconds between two looks while the sale must not run out."""


class InBackground(ABC):
    """Acts from a thread of its own during a block, and is waited for at its end.

    Not after an error: the shop is being removed.
    """

    def __init__(self, name: str) -> None:
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._end.set()
        if kind is None:
            self._thread.join()

    @abstractmethod
    def _run(self) -> None:
        """Act until the end, and finish."""


class Restocks(InBackground):
    """Restocks a sale that has been empty for a while, from a thread; each time is an operation.

    Args:
        shop: that sells it.
        sale: its id.
        units: each time.
        left: returns the units available; None if that is not known.
        folder: for the history.
        most: how often, at most.

    Attributes:
        times: restocks so far.
        path: of the history.
        plenty: whether to restock at once, while a fault needs a shop that sells.
    """

    def __init__(
        self,
        shop: FullShop,
        sale: str,
        units: int,
        left: Callable[[], int | None],
        folder: Path,
        *,
        most: int | None = None,
    ) -> None:
        self.times, self.plenty = 0, False
        self._shop, self._sale, self._units, self._most = shop, sale, units, most
        self._left = left
        self._item = ""
        self._name = f"restocks-{sale}"
        self._calls = 0
        self._empty_since: float | None = None
        self._recorder = Recorder(folder / f"{self._name}.jsonl")
        self.path = self._recorder.path
        super().__init__(self._name)

    def _run(self) -> None:
        with closing(self._recorder):
            while not self._end.wait(PLENTY_LOOK if self.plenty else LOOK):
                self._look()

    def _look(self) -> None:
        now = time.monotonic()
        if self._left() != 0 or self._calls == self._most:
            self._empty_since = None
            return
        if self._empty_since is None:
            self._empty_since = now
        if self.plenty or now - self._empty_since >= EMPTY:
            self._restock()
            self._empty_since = None

    def _restock(self) -> None:
        try:
            self._item = self._item or str(self._shop.figures(self._sale)["item"])
        except ShopRefused:
            return
        self._calls += 1
        call = f"{self._name}#{self._calls}"
        self._recorder.invoke(
            Operation(
                0,
                call,
                "restock",
                self._name,
                self._name,
                sale=self._sale,
                item=self._item,
                quantity=self._units,
            )
        )
        outcome, code = OK, ""
        try:
            self._shop.restock(self._sale, self._units)
            self.times += 1
        except ShopRefused as error:
            # The units may have been added: unknown, as for any other client.
            outcome, code = INFO, f"{type(error).__name__}: {error}"
        self._recorder.complete(call, outcome, status=200 if outcome == OK else 0, code=code)


HOURS = 3 * 3600.0
"""Seconds until a sale ends that is open."""

RETRY = 0.5
"""Seconds between two tries, while the shop does not answer."""

CLOSING = 30.0
"""Seconds in which a sale has to be closed for good. What it is then is judged as it is."""


class Step(NamedTuple):
    """A change, and the seconds from the one before, or from the opening.

    It names all terms, so that it may be repeated: a try without an answer may have succeeded.
    """

    after: float
    price: int
    paused: bool = False
    ends_in: float = HOURS

    def changes(self) -> dict[str, Any]:
        """What the shop is asked for."""
        return {"price": self.price, "paused": self.paused, "ends_in": self.ends_in}


PRICE, OTHER_PRICE = 7_919, 8_887
CYCLE = (
    Step(2.5, PRICE, paused=True),
    Step(2.0, OTHER_PRICE),
    Step(2.5, OTHER_PRICE, ends_in=0.0),
    Step(2.0, PRICE),
)
LAST = Step(2.5, PRICE, ends_in=0.0)

Change = Callable[..., Terms]


class Schedule(InBackground):
    """Takes a sale through its changes, from a thread of its own, and closes it for good.

    Attributes:
        rows: the terms that the sale was opened with, and those after each change.
    """

    def __init__(self, opened: Terms, opens_at: float, change: Change, *, repeats: bool) -> None:
        """`opened` are the terms that the sale was opened with a moment ago.

        `opens_at` is on the monotonic clock. `change(sale, **changes)` changes the sale; where it
        raises `ShopRefused`, the sale may have been changed. `repeats`: until the end of the block;
        otherwise the sale goes through its changes once.
        """
        self.rows = [opened]
        self._opens_at, self._change = opens_at, change
        self._repeats = repeats
        # The database's clock was there at this moment, or further.
        self._known = opened.done, time.monotonic_ns()
        super().__init__("schedule")

    def _run(self) -> None:
        self._end.wait(max(0.0, self._opens_at - time.monotonic()))
        again = True
        while again:
            for step in CYCLE:
                if not self._end.wait(step.after):
                    self._take(step, self._end.wait)
            again = self._repeats and not self._end.is_set()
        self._end.wait(LAST.after)
        until = time.monotonic() + CLOSING

        def is_late(pause: float) -> bool:
            time.sleep(pause)
            return time.monotonic() > until

        self._take(LAST, is_late)

    def _take(self, step: Step, gives_up: Callable[[float], bool]) -> None:
        """Try until the shop confirms it; `gives_up` waits for so long and says when to end."""
        while True:
            clock, at = self._known
            asked = clock + (time.monotonic_ns() - at) // 1000
            try:
                row = self._change(self.rows[0].sale, **step.changes())
            except ShopRefused:
                self.rows.append(self._perhaps(step, asked))
                if gives_up(RETRY):
                    return
                continue
            self.rows.append(row)
            self._known = row.done, time.monotonic_ns()
            return

    def _perhaps(self, step: Step, asked: int) -> Terms:
        """The terms that were asked for, if they were set at all; at `asked` or later."""
        opened = self.rows[0]
        ends_at = asked + int(step.ends_in * 1e6)
        return Terms(opened.sale, asked, 0, step.price, opened.starts_at, ends_at, step.paused)


def opening_of(terms: Terms) -> float:
    """When a sale opens that has these terms since a moment ago, on the monotonic clock."""
    return time.monotonic() + max(0, terms.starts_at - terms.done) / 1e6
