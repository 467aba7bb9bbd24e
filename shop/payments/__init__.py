"""Money: payments and refunds of orders, and the seam to a payment provider."""

from shop.payments.paying import accept_nothing, pay
from shop.payments.refunding import refund, retry, take_back

__all__ = ["accept_nothing", "pay", "refund", "retry", "take_back"]
