"""Orders: created with their reservations, then fulfilled, cancelled or expired."""

from shop.orders.cancellation import by_halves, cancel, expire, expire_those
from shop.orders.creation import OPENED, Opened, open_cart, open_orders
from shop.orders.fulfilment import fulfil
from shop.orders.partial import KeyReused, NoSuchPart, Part
from shop.orders.reconciliation import mismatches
from shop.orders.transitions import WrongState, topic

__all__ = [
    "OPENED",
    "KeyReused",
    "NoSuchPart",
    "Opened",
    "Part",
    "WrongState",
    "by_halves",
    "cancel",
    "expire",
    "expire_those",
    "fulfil",
    "mismatches",
    "open_cart",
    "open_orders",
    "topic",
]
