"""What a stock record does when it is saved: a mixin for your fork of oscar's partner app."""

from django.db import transaction


class GuardedSave:
    """Saved by the dashboard, the admin and imports."""

    @transaction.atomic
    def save(self, *args, **kwargs):
        """Save, with the allocations as they are now, and restock or write off the difference."""
        from guarded import stock

        if self.pk:
            # A form read the number of allocations before it was shown; orders came since.
            self.num_allocated = stock.lock(self.pk).num_allocated
        super().save(*args, **kwargs)
        stock.align(stock.lock(self.pk))
