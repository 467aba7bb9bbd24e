"""Sales that one walker at a time has to themselves, so that every answer in them is determined."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import NamedTuple

from loadtest.roles import OWN
from loadtest.sale import Sale


class Own(NamedTuple):
    """Two sales that nobody else uses now; `name` is theirs in the history."""

    name: str
    sales: tuple[Sale, Sale]


class OwnSales:
    """The pairs of own sales of a load-generating process.

    Args:
        sales: of the run, by role.
    """

    def __init__(self, sales: Mapping[str, Sale]) -> None:
        self._free = [
            Own(f"{one}+{other}", (sales[one], sales[other]))
            for one, other in OWN
            if one in sales and other in sales
        ]
        self._lock = threading.Lock()

    @contextmanager
    def use(self) -> Iterator[Own | None]:
        """Have a pair for the time of the context; None if none is free."""
        with self._lock:
            own = self._free.pop(0) if self._free else None
        try:
            yield own
        finally:
            if own is not None:
                with self._lock:
                    self._free.append(own)
