"""What a shop adds to stock: products, sales, orders with their money, mails; and its tasks."""

from shop.models.alerts import Alert
from shop.models.catalogue import STRATEGIES, Product, Sale, check_strategy
from shop.models.mails import Mail
from shop.models.orders import Order, OrderEvent, OrderLine
from shop.models.payments import Payment, Refund
from shop.models.runs import Run
from shop.models.webhooks import WebhookEvent

__all__ = [
    "STRATEGIES",
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
    "check_strategy",
]
