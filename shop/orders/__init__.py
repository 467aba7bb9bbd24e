"""Orders: opened with their reservations, then paid, cancelled, refunded or expired."""

from shop.orders.books import mismatches
from shop.orders.changing import EXPIRED, WrongState, cancel, expire, pay, refund
from shop.orders.opening import OPENED, Opened, open_orders

__all__ = [
    "EXPIRED",
    "OPENED",
    "Opened",
    "WrongState",
    "cancel",
    "expire",
    "mismatches",
    "open_orders",
    "pay",
    "refund",
]
