"""The Django app that counts stock."""

import logging

from django.apps import AppConfig

log = logging.getLogger(__name__)


class InventoryConfig(AppConfig):
    """Stock: items, reservations, the ledger and the outbox."""

    name = "inventory"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        """Register the system checks."""
        from inventory import checks

        # A server that uses gevent runs no system checks, and there alone this one can fail.
        for problem in checks.check_gevent():
            log.error("%s", problem)
