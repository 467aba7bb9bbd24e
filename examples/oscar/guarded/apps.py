"""The app that joins oscar's stock records with guarded items."""

from django.apps import AppConfig


class GuardedConfig(AppConfig):
    """Two tables; oscar's own tables stay as they are."""

    name = "guarded"
    default_auto_field = "django.db.models.BigAutoField"
