"""What a shop adds to stock: products, sales with a price and a window, orders, mails."""

from shop.models.catalogue import STRATEGIES, Product, Sale, check_strategy
from shop.models.mails import Mail
from shop.models.orders import Order, OrderLine
from shop.models.webhooks import WebhookEvent

__all__ = [
    "STRATEGIES",
    "Mail",
    "Order",
    "OrderLine",
    "Product",
    "Sale",
    "WebhookEvent",
    "check_strategy",
]
