"""Draws as a Django app."""

from django.apps import AppConfig


class DrawsConfig(AppConfig):
    """Entries, places and winners of draws."""

    name = "shop.draws"

    def ready(self) -> None:
        """Translate the admin's names."""
        from inventory.translation import translate_names

        translate_names(self)
