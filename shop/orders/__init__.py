"""Orders: created with their reservations, then fulfilled, cancelled or expired."""

from shop.orders.cancellation import cancel, expire, expire_those, split_on_error
from shop.orders.creation import (
    OPENED,
    AmountTooLarge,
    Opened,
    OpenedLine,
    PriceChanged,
    SaleClosed,
    open_orders,
)
from shop.orders.parts import Part
from shop.orders.transitions import WrongState, fulfil, topic

__all__ = [
    "OPENED",
    "AmountTooLarge",
    "Opened",
    "OpenedLine",
    "Part",
    "PriceChanged",
    "SaleClosed",
    "WrongState",
    "cancel",
    "expire",
    "expire_those",
    "fulfil",
    "open_orders",
    "split_on_error",
    "topic",
]
