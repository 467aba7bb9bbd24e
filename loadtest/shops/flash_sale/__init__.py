"""This project's own shop: its paths, its statuses, its fields, and nothing else of the proof."""

from __future__ import annotations

from functools import cache

from loadtest.shop import Level, Specification


@cache
def promises() -> Specification | None:
    """Return what the shop promises; None where the load tests are installed without its code."""
    # Not at the top: who judges another shop may have a module `shop` of their own.
    try:
        from loadtest.shops.flash_sale.specification import Promises
    except ModuleNotFoundError:
        return None
    return Promises()


def levels() -> frozenset[Level]:
    """Return what the shop can be judged on: it has no vouchers."""
    return frozenset(Level) - {Level.VOUCHERS, *([] if promises() else [Level.SPECIFICATION])}
