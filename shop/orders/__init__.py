"""Orders: opened with their reservations, then paid, fulfilled, returned, cancelled or expired."""

from shop.orders.books import mismatches
from shop.orders.carts import open_cart
from shop.orders.ending import cancel, expire, expire_those
from shop.orders.fulfilling import fulfil
from shop.orders.moving import WrongState, topic
from shop.orders.opening import OPENED, Opened, open_orders
from shop.orders.parts import KeyReused, NoSuchPart, Part
from shop.orders.paying import Declined, pay
from shop.orders.refunding import refund, retry

__all__ = [
    "OPENED",
    "Declined",
    "KeyReused",
    "NoSuchPart",
    "Opened",
    "Part",
    "WrongState",
    "cancel",
    "expire",
    "expire_those",
    "fulfil",
    "mismatches",
    "open_cart",
    "open_orders",
    "pay",
    "refund",
    "retry",
    "topic",
]
