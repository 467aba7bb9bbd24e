"""The Django app that counts stock."""

from django.apps import AppConfig


class InventoryConfig(AppConfig):
    """Stock: items, reservations, the ledger and the outbox."""

    name = "inventory"
    default_auto_field = "django.db.models.BigAutoField"
