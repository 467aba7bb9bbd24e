"""The storefront as a Django app."""

from django.apps import AppConfig


class ShopConfig(AppConfig):
    """Products, sales, orders, pages and the API."""

    name = "shop"

    def ready(self) -> None:
        """Register checks and metrics; notify Celery of each commit that writes outbox messages."""
        from inventory.hooks import hooks
        from shop.background.notify import notify
        from shop.operating import (
            checks,  # noqa: F401  # registers them
            metrics,
        )

        hooks.written = notify
        metrics.declare()
