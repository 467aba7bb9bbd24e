"""The benchmark's rows: one per way of answering the same request."""

from __future__ import annotations

from dataclasses import dataclass

from inventory.selling.strategies import CLASSES

ENOUGH_STOCK = 10_000_000
"""Units: more than any row can sell, so that every request is a purchase."""


@dataclass(frozen=True, slots=True)
class Row:
    """A row of the benchmark.

    Attributes:
        name: in the table.
        settings: Django's settings module of the server.
        strategy: of the sale; None without a sale.
        stock: units of the sale.
        expected: status of a correct answer.
        concurrency: connections.
    """

    name: str
    concurrency: int
    settings: str = "lab.settings"
    strategy: str | None = None
    stock: int = ENOUGH_STOCK
    expected: int = 201


BARE, API = "lab.bench.bare", "lab.bench.api"
"""Settings of the rows that sell nothing."""


def rows(concurrency: int, crowd: int) -> list[Row]:
    """Return all rows.

    Args:
        concurrency: connections of most rows.
        crowd: connections of the rush rows; 0 leaves them out.
    """
    found = [
        Row("noop", concurrency, settings=BARE),
        Row("noop_api", concurrency, settings=API),
        Row("sold_out", concurrency, strategy="combining", stock=0, expected=409),
        *(Row(name, concurrency, strategy=name) for name in CLASSES),
    ]
    if crowd:
        found += [
            Row("noop", crowd, settings=BARE),
            Row("combining", crowd, strategy="combining"),
        ]
    return found


RATIOS = (
    ("combining", "noop"),
    ("combining", "guard"),
    ("guard", "guard_orm"),
    ("combining", "redis_lock"),
    ("sold_out", "noop_api"),
)
"""Pairs of rows whose rates are compared."""
