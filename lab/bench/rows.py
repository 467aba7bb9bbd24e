"""What is measured: one row for each way of answering the same request."""

from __future__ import annotations

from dataclasses import dataclass

from inventory.selling.strategies import CLASSES

ENOUGH_STOCK = 10_000_000
"""Units: more than any row can sell, so that every request is a purchase."""


@dataclass(frozen=True, slots=True)
class Row:
    """One thing to measure.

    Attributes:
        name: as in the table.
        settings: Django's settings module of the server that answers.
        strategy: of the sale; None where no sale is asked.
        stock: units of the sale.
        expected: status of a right answer.
        concurrency: connections.
    """

    name: str
    concurrency: int
    settings: str = "lab.settings"
    strategy: str | None = None
    stock: int = ENOUGH_STOCK
    expected: int = 201


def rows(concurrency: int, crowd: int) -> list[Row]:
    """All rows.

    Args:
        concurrency: connections of most rows.
        crowd: connections of the rows that show a rush.
    """
    bare, api = "lab.bench.bare", "lab.bench.api"
    found = [
        Row("noop", concurrency, settings=bare),
        Row("noop_api", concurrency, settings=api),
        Row("sold_out", concurrency, strategy="combining", stock=0, expected=409),
        *(Row(name, concurrency, strategy=name) for name in CLASSES),
    ]
    if crowd:
        found += [
            Row("noop", crowd, settings=bare),
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
"""Rows whose rates are compared."""
