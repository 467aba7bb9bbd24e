"""Draws as a Django app."""

from django.apps import AppConfig


class DrawsConfig(AppConfig):
    """Entries, places and winners of draws."""

    name = "shop.draws"

    def ready(self) -> None:
        """Declare the metrics of the draws' locks; translate the admin's names."""
        from inventory.metrics import declare_lock
        from inventory.translation import translate_names

        translate_names(self)
        declare_lock("draw_", "locks of draws")
