"""Money: payments and refunds of orders, and the seam to a payment provider."""

from shop.payments.paying import PaymentFailed, pay
from shop.payments.refunding import refund, retry

__all__ = ["PaymentFailed", "pay", "refund", "retry"]
