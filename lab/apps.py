"""The lab as a Django app, installed in demo mode only."""

from django.apps import AppConfig
from django.conf import settings


class LabConfig(AppConfig):
    """Demo data, the demo's API, the comparison strategies and the failpoints' orders."""

    name = "lab"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        """Register the comparison strategies and arm the failpoints."""
        from inventory.selling import strategies
        from lab.proof import failpoints
        from lab.strategies import COMPARISON

        for strategy in COMPARISON:
            strategies.register(strategy)
        failpoints.obey(settings.LAB_FAILPOINTS)
