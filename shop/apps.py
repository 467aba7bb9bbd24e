"""The storefront as a Django app."""

from django.apps import AppConfig


class ShopConfig(AppConfig):
    """Products, sales, orders, pages and the API."""

    name = "shop"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        """Register checks and metrics; notify Celery of each commit that writes outbox messages."""
        from inventory.hooks import hooks
        from shop.background.notify import notify
        from shop.operating import checks  # noqa: F401  # registers them
        from shop.operating.metrics import names

        hooks.written = notify
        names.declare()
