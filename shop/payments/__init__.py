"""Money: payments and refunds of orders, and the seam to a payment provider."""

from shop.payments.paying import accept_nothing, pay
from shop.payments.progress import NONE, Progress, progress
from shop.payments.refunding import refund, retry, take_back

__all__ = [
    "NONE",
    "Progress",
    "accept_nothing",
    "pay",
    "progress",
    "refund",
    "retry",
    "take_back",
]
