"""Every control, in the order in which they run."""

from __future__ import annotations

from lab.proof.controls.orders import ORDER_CONTROLS
from lab.proof.controls.stock import STOCK_CONTROLS

CONTROLS = (*STOCK_CONTROLS, *ORDER_CONTROLS)

QUICK = (
    *("nothing", "naive", "unique-keys", "outbox", "fence", "refund", "durability"),
    *("price", "busy"),
)
"""Those of the short form: one of each kind."""
