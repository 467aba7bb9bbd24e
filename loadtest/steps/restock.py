"""New units for a sale that has to last, recorded in the history."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Protocol

from loadtest.history import INFO, OK, Recorder

# Seconds that the item stays empty, so that buyers are told so and those who give up can leave.
EMPTY = 1.5
# In a sale that does not have to last, how often it is restocked all the same while buyers come
# back, and with how much of its stock: who is refused then is refused on an old hint.
REFILLS, REFILL = 2, 0.25

LOOK = 0.5
"""Seconds between two looks at the stock."""

PLENTY_LOOK = 0.1
"""Seconds between two looks while the sale must not run out."""


def refills_of(mix: str, stock: int) -> tuple[int, int] | None:
    """The units and the number of restocks of a main sale that need not last; None: it has none."""
    return (max(1, round(stock * REFILL)), REFILLS) if mix == "all" else None


class Shelf(Protocol):
    """One item's stock, as a run reaches it; `add` may raise `errors` although it has added."""

    sale: str
    item: str
    errors: tuple[type[Exception], ...]

    def left(self) -> int | None:
        """Return the units available; None if the shop does not say."""
        ...

    def add(self, units: int) -> None:
        """Add units."""
        ...

    def close(self) -> None:
        """Release what the thread that looked has opened."""
        ...


class Restocks:
    """Restocks an item that has been empty for a while, from a thread; each time is an operation.

    Args:
        shelf: what is restocked.
        units: each time.
        folder: for the history.
        most: how often, at most.

    Attributes:
        times: restocks so far.
        path: of the history.
        plenty: whether to restock at once, while a fault needs a shop that sells.
    """

    def __init__(self, shelf: Shelf, units: int, folder: Path, *, most: int | None = None) -> None:
        self.times, self.plenty = 0, False
        self._shelf, self._units, self._most = shelf, units, most
        self._name = f"restocks-{shelf.sale}"
        self._calls = 0
        self._empty_since: float | None = None
        self._recorder = Recorder(folder / f"{self._name}.jsonl")
        self.path = self._recorder.path
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """Wait for the last restock to finish, and close the history."""
        self._end.set()
        self._thread.join()
        self._recorder.close()

    def abandon(self) -> None:
        """End without waiting: the shop is being removed."""
        self._end.set()

    def _run(self) -> None:
        try:
            while not self._end.wait(PLENTY_LOOK if self.plenty else LOOK):
                self._look()
        finally:
            self._shelf.close()

    def _look(self) -> None:
        now = time.monotonic()
        if self._shelf.left() != 0 or self._calls == self._most:
            self._empty_since = None
            return
        if self._empty_since is None:
            self._empty_since = now
        if self.plenty or now - self._empty_since >= EMPTY:
            self._restock()
            self._empty_since = None

    def _restock(self) -> None:
        self._calls += 1
        call = f"{self._name}#{self._calls}"
        self._recorder.invoke(
            call,
            "restock",
            client=self._name,
            buyer=self._name,
            sale=self._shelf.sale,
            item=self._shelf.item,
            quantity=self._units,
        )
        outcome, code = OK, ""
        try:
            self._shelf.add(self._units)
            self.times += 1
        except self._shelf.errors as error:
            # The units may have been added: unknown, as for any other client.
            outcome, code = INFO, f"{type(error).__name__}: {error}"
        self._recorder.complete(call, outcome, status=200 if outcome == OK else 0, code=code)
