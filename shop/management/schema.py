"""The schema of the demo's own database, for commands that may be the first to use it."""

from __future__ import annotations

from django.core.management import call_command

from shop.stack import entry


def bring_up_to_date() -> None:
    """Migrate, if the servers are the demo's own; whose database it is else has a say in that."""
    if entry.embedded_servers() is not None:
        call_command("migrate", verbosity=0, interactive=False)
