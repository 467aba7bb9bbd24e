"""Re-export all models, so that Django finds them; import them from their subjects."""

from shop.audit.models import Alert
from shop.background.models import Run
from shop.catalogue.models import Product, Sale
from shop.mails.models import Mail
from shop.orders.models import Order, OrderEvent, OrderLine
from shop.payments.models import Payment, Refund
from shop.payments.webhook_models import WebhookEvent

__all__ = [
    "Alert",
    "Mail",
    "Order",
    "OrderEvent",
    "OrderLine",
    "Payment",
    "Product",
    "Refund",
    "Run",
    "Sale",
    "WebhookEvent",
]
