"""The Django app for stock."""

import logging

from django.apps import AppConfig

log = logging.getLogger(__name__)


class InventoryConfig(AppConfig):
    """Stock: items, reservations, the ledger and the outbox."""

    name = "inventory"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        """Register the system checks, and translate the admin's names."""
        from inventory import checks
        from inventory.translation import translate_names

        translate_names(self)

        # Servers with gevent run no system checks, and only there can this one fail.
        for problem in checks.check_gevent():
            log.error("%s", problem)
