"""Sell by a strategy of the lab."""

from __future__ import annotations

from typing import Any

from inventory.outcomes import Purchase
from inventory.tests.helpers import open_nothing
from lab.strategies import CLASSES, DEFAULT, strategy

SAFE = [name for name, kind in CLASSES.items() if kind.safe]
"""Names of the strategies that must never oversell."""

FAST = [name for name in SAFE if name != "redis_lock"]
"""Those whose buyers need not poll for a lock: for tests with many of them at once."""


def sell(purchase: Purchase, by: str = DEFAULT) -> Any:
    """Sell without opening an order."""
    return strategy(by).sell(purchase, open_nothing)


def path_of(name: str) -> str:
    """Return the dotted path of a strategy's class, for the setting `INVENTORY_SELLER`."""
    kind = CLASSES[name]
    return f"{kind.__module__}.{kind.__qualname__}"
