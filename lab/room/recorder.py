"""Record what a web process does with each purchase, while it is wanted for a slow motion.

The room or a duel leaves an order: a file that names a folder. Every web process looks for it four
times per second, when it writes its metrics, and then replaces the two functions that it needs: a
process that does not record runs nothing of this. `loadtest/replay/document.py` has the format.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from itertools import count
from pathlib import Path
from typing import Any
from uuid import UUID

from django.conf import settings

from inventory import services
from inventory.hooks import hooks
from inventory.metrics import metrics
from inventory.outcomes import OnGranted, Outcome, Purchase, PurchaseTicket

Batch = Callable[[Sequence[PurchaseTicket]], AbstractContextManager[object]]


class Recorder:
    """Records this process's purchases while there is an order.

    Args:
        order: the file that names the folder to write to.
    """

    def __init__(self, order: Path) -> None:
        self._order = order
        self._folder = ""
        self._file = -1
        self._batches: dict[UUID, tuple[int, int, int]] = {}
        self._number = count(1)
        self._replaced: tuple[Callable[..., Outcome], Batch] | None = None

    def look(self) -> float:
        """Begin or end as the order says; return whether this process records."""
        try:
            wanted = self._order.read_text()
        except FileNotFoundError:
            wanted = ""
        if wanted != self._folder:
            self.end()
            if wanted:
                self._begin(wanted)
            self._folder = wanted
        return float(self._replaced is not None)

    def end(self) -> None:
        """Put the functions back, and forget everything."""
        if self._replaced is None:
            return
        services.reserve, hooks.batch = self._replaced
        self._replaced = None
        os.close(self._file)
        self._batches.clear()

    def _begin(self, folder: str) -> None:
        try:
            path = Path(folder) / f"{os.getpid()}.served"
            self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        except FileNotFoundError:  # the order is older than its folder
            return
        self._replaced = services.reserve, hooks.batch
        services.reserve, hooks.batch = self._reserving(*self._replaced)

    def _reserving(
        self, reserve: Callable[..., Outcome], batch: Batch
    ) -> tuple[Callable[..., Outcome], Batch]:
        """Return both functions, with a recording around them."""

        def reserved(purchase: Purchase, on_granted: OnGranted, **options: Any) -> Outcome:
            queued = time.monotonic_ns()
            try:
                return reserve(purchase, on_granted, **options)
            finally:
                self._write(purchase.key, queued)

        @contextmanager
        def sold(tickets: Sequence[PurchaseTicket]) -> Iterator[None]:
            with batch(tickets):
                begun = time.monotonic_ns()
                try:
                    yield
                finally:
                    known = begun, time.monotonic_ns(), next(self._number)
                    self._batches.update({ticket.request.key: known for ticket in tickets})

        return reserved, sold

    def _write(self, key: UUID, queued: int) -> None:
        if self._replaced is None:  # the recording has ended meanwhile
            return
        begun, committed, batch = None, time.monotonic_ns(), None
        found = self._batches.get(key)
        # An earlier attempt with this key may have been in an earlier batch.
        if found is not None and found[1] >= queued:
            begun, committed, batch = found
        line = {"key": str(key), "process": os.getpid(), "queued": queued}
        line |= {"begun": begun, "committed": committed, "batch": batch}
        # One write per line, before the answer: nothing is missing when the last buyer has gone.
        os.write(self._file, json.dumps(line).encode() + b"\n")


def listen() -> None:
    """Record in this process from now on, whenever the room wants it."""
    metrics.gauge("recording", Recorder(Path(settings.LAB_RECORDING)).look)


@contextmanager
def recording(folder: Path) -> Iterator[None]:
    """Let all web processes record into a folder inside the block."""
    order = Path(settings.LAB_RECORDING)
    order.write_text(str(folder))
    try:
        yield
    finally:
        order.unlink(missing_ok=True)
