"""A stock record whose saved numbers reach its item."""

from oscar.apps.partner.abstract_models import AbstractStockRecord

from guarded.saving import GuardedSave


class StockRecord(GuardedSave, AbstractStockRecord):
    """Oscar's, guarded."""


from oscar.apps.partner.models import *  # noqa: E402, F403
