"""Guards what oscar's own tests use by name instead of loading it as a shop does."""

from django.apps import AppConfig


class OwnTestsConfig(AppConfig):
    """Their shop has a fork of the partner app, and they import oscar's `OrderCreator`."""

    name = "project"

    def ready(self):
        """Add the mixin to their fork, and let the name mean the guarded class."""
        from oscar.apps.order import models, utils
        from oscar.core.loading import get_model

        from forks.order.models import Line
        from forks.order.utils import OrderCreator
        from guarded.saving import GuardedSave

        StockRecord = get_model("partner", "StockRecord")
        if not issubclass(StockRecord, GuardedSave):  # tests load the apps again
            StockRecord.__bases__ = (GuardedSave, *StockRecord.__bases__)
        models.Line, utils.OrderCreator = Line, OrderCreator
