"""Re-export all models, so that Django finds them; import them from their subjects."""

from shop.audit.report import Alert
from shop.catalogue.models import Product, Sale
from shop.orders.models import Order, OrderEvent, OrderLine
from shop.payments.models import Payment, Refund, WebhookEvent

__all__ = [
    "Alert",
    "Order",
    "OrderEvent",
    "OrderLine",
    "Payment",
    "Product",
    "Refund",
    "Sale",
    "WebhookEvent",
]
