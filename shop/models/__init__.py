"""What a shop adds to stock: products, sales with a price and a window, orders, mails, tasks."""

from shop.models.catalogue import STRATEGIES, Product, Sale, check_strategy
from shop.models.mails import Mail
from shop.models.orders import Order, OrderLine
from shop.models.runs import Run

__all__ = ["STRATEGIES", "Mail", "Order", "OrderLine", "Product", "Run", "Sale", "check_strategy"]
