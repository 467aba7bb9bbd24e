"""Orders: created with their reservations, then fulfilled, cancelled or expired."""

from shop.orders.cancellation import cancel, expire, expire_those, split_on_error
from shop.orders.creation import OPENED, Opened, open_cart, open_orders
from shop.orders.fulfilment import fulfil
from shop.orders.partial import NoSuchPart, Part, PartKeyReused
from shop.orders.reconciliation import mismatches
from shop.orders.transitions import WrongState, topic

__all__ = [
    "OPENED",
    "NoSuchPart",
    "Opened",
    "Part",
    "PartKeyReused",
    "WrongState",
    "cancel",
    "expire",
    "expire_those",
    "fulfil",
    "mismatches",
    "open_cart",
    "open_orders",
    "split_on_error",
    "topic",
]
