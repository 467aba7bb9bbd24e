"""The lab as a Django app, installed in demo mode only."""

from django.apps import AppConfig
from django.conf import settings


class LabConfig(AppConfig):
    """Demo data, the demo's API, the strategies and the failpoints."""

    name = "lab"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        """Turn safeguards off, arm the failpoints and commit a control's sabotage."""
        from lab import strategies
        from lab.proof import sabotage
        from lab.strategies.combining import without

        if settings.LAB_WITHOUT:
            strategies.CLASSES[strategies.DEFAULT] = without(settings.LAB_WITHOUT)
        sabotage.obey(settings.LAB_FAILPOINTS)
        sabotage.commit(settings.LAB_SABOTAGE)
