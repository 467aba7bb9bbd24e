"""An order's line whose allocation is a reservation."""

from django.db import transaction
from oscar.apps.order.abstract_models import AbstractLine


class Line(AbstractLine):
    """Cancelled and shipped by oscar's event handlers."""

    @transaction.atomic
    def cancel_allocation(self, quantity):
        """Cancel as oscar does, and return as many units."""
        from guarded import stock

        self._lock()
        allocated = self.num_allocated
        super().cancel_allocation(quantity)
        stock.cancel(self, allocated - self.num_allocated)

    @transaction.atomic
    def consume_allocation(self, quantity):
        """Ship as oscar does, and confirm the reservation with the last unit."""
        from guarded import stock

        self._lock()
        super().consume_allocation(quantity)
        stock.settle(self)

    def _lock(self):
        rows = Line.objects.select_for_update()
        self.refresh_from_db(fields=["num_allocated", "allocation_cancelled"], from_queryset=rows)


from oscar.apps.order.models import *  # noqa: E402, F403
