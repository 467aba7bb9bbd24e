"""This project's own shop: its paths, its statuses, its fields, and nothing else of the proof."""

from __future__ import annotations

from loadtest.shop import Level, Specification

SPECIFICATION: Specification | None
"""What the shop promises; None where the load tests are installed without the shop's code."""

try:
    from loadtest.shops.flash_sale.specification import Promises
except ModuleNotFoundError:
    SPECIFICATION = None
else:
    SPECIFICATION = Promises()

LEVELS = frozenset(Level) - {Level.VOUCHERS}
"""What the shop can be judged on: it has no vouchers."""

if SPECIFICATION is None:
    LEVELS -= {Level.SPECIFICATION}
