"""The lab as a Django app, installed in demo mode only."""

from django.apps import AppConfig
from django.conf import settings


class LabConfig(AppConfig):
    """Demo data, the demo's API, the comparison strategies and the failpoints."""

    name = "lab"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        """Register the comparison strategies, arm the failpoints, commit a control's sabotage.

        Where there is a control room, it may have purchases recorded.
        """
        from inventory.selling import strategies
        from lab.proof import failpoints, sabotage
        from lab.room import recorder
        from lab.strategies import COMPARISON
        from lab.strategies.unguarded_combining import UnguardedCombining

        for strategy in COMPARISON:
            strategies.register(strategy)
        if not settings.LAB_GUARD:
            strategies.CLASSES[UnguardedCombining.name] = UnguardedCombining
        failpoints.obey(settings.LAB_FAILPOINTS)
        sabotage.commit(settings.LAB_SABOTAGE)
        if settings.ROOM_URL:
            recorder.listen()
