"""The storefront as a Django app."""

from django.apps import AppConfig, apps


class ShopConfig(AppConfig):
    """Products, sales, orders, pages and the API."""

    name = "shop"

    def ready(self) -> None:
        """Register checks and metrics; notify Celery of each commit that writes outbox messages;
        translate the admin's names.
        """
        from inventory.hooks import hooks
        from inventory.translation import translate_names
        from shop.background.notify import notifier
        from shop.operating import (
            checks,  # noqa: F401  # registers them
            metrics,  # noqa: F401  # makes them
        )

        translate_names(self)
        translate_names(apps.get_app_config("accounts"))
        hooks.written = notifier.bell.set
