"""New units for a sale that has to last, recorded in the history."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from loadtest.history import Recorder

# Seconds that the item stays empty, so that buyers are told so and those who give up can leave.
EMPTY = 1.5
# In a sale that does not have to last, how often it is restocked all the same while buyers come
# back, and with how much of its stock: who is refused then is refused on an old hint.
REFILLS, REFILL = 2, 0.25


def refills_of(mix: str, stock: int) -> tuple[int, int] | None:
    """The units and the number of restocks of a main sale that need not last; None: it has none."""
    return (max(1, round(stock * REFILL)), REFILLS) if mix == "all" else None


class Restocks:
    """Adds units to an item that has been empty for a while; each time is an operation.

    Attributes:
        times: restocks so far.
        path: of the history.
    """

    def __init__(
        self,
        sale: str,
        units: int,
        folder: Path,
        add: Callable[[], None],
        errors: tuple[type[Exception], ...],
        *,
        most: int | None = None,
    ) -> None:
        """`add` adds the units and may raise `errors`, after which they may have been added.

        `most` is how often this is done at most.
        """
        self.times = 0
        self._name = f"restocks-{sale}"
        self._sale, self._units, self._add, self._errors = sale, units, add, errors
        self._calls = 0
        self._most = most
        self._empty_since: float | None = None
        self._recorder = Recorder(folder / f"{self._name}.jsonl")
        self.path = self._recorder.path

    def look(self, item: str, available: int | None, *, at_once: bool = False) -> None:
        """Restock if the item has been empty long enough, or is empty and it is to be `at_once`.

        `available` is None if the shop does not say.
        """
        now = time.monotonic()
        if available != 0 or self._calls == self._most:
            self._empty_since = None
            return
        if self._empty_since is None:
            self._empty_since = now
        if at_once or now - self._empty_since >= EMPTY:
            self._restock(item)
            self._empty_since = None

    def close(self) -> None:
        """Close the history."""
        self._recorder.close()

    def _restock(self, item: str) -> None:
        self._calls += 1
        call = f"{self._name}#{self._calls}"
        self._recorder.invoke(
            call,
            "restock",
            client=self._name,
            buyer=self._name,
            sale=self._sale,
            item=item,
            quantity=self._units,
        )
        status, code = 200, ""
        try:
            self._add()
            self.times += 1
        except self._errors as error:
            # The units may have been added: unknown, as for any other client.
            status, code = 0, f"{type(error).__name__}: {error}"
        self._recorder.complete(call, "restock", status=status, code=code)
