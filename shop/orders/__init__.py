"""Orders: opened with their reservations, then paid, cancelled, refunded or expired."""

from shop.orders.books import mismatches
from shop.orders.carts import open_cart
from shop.orders.changing import EXPIRED, WrongState, cancel, expire, expire_those, pay, refund
from shop.orders.opening import OPENED, Opened, open_orders

__all__ = [
    "EXPIRED",
    "OPENED",
    "Opened",
    "WrongState",
    "cancel",
    "expire",
    "expire_those",
    "mismatches",
    "open_cart",
    "open_orders",
    "pay",
    "refund",
]
