"""New units for a sale that has to last, recorded in the history."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Self

from loadtest.history import INFO, OK, Recorder
from loadtest.shops.flash_sale.demo import DemoShop, ShopRefused

# Seconds that the item stays empty, so that buyers are told so and those who give up can leave.
EMPTY = 1.5

LOOK = 0.5
"""Seconds between two looks at the stock."""

PLENTY_LOOK = 0.1
"""Seconds between two looks while the sale must not run out."""


class Restocks:
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
        shop: DemoShop,
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
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """Wait for the last restock to finish; not after an error: the shop is being removed."""
        self._end.set()
        if kind is None:
            self._thread.join()
            self._recorder.close()

    def _run(self) -> None:
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
            call,
            "restock",
            client=self._name,
            buyer=self._name,
            sale=self._sale,
            item=self._item,
            quantity=self._units,
        )
        outcome, code = OK, ""
        try:
            self._shop.restock(self._sale, self._units)
            self.times += 1
        except ShopRefused as error:
            # The units may have been added: unknown, as for any other client.
            outcome, code = INFO, f"{type(error).__name__}: {error}"
        self._recorder.complete(call, outcome, status=200 if outcome == OK else 0, code=code)
