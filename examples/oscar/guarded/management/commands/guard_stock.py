"""Guard all stock, and take over numbers that were changed by SQL."""

from django.core.management.base import BaseCommand
from django.db import transaction
from oscar.core.loading import get_model

from guarded import stock


class Command(BaseCommand):
    """Run it once after the migration, and after each import that bypasses `save`."""

    help = "Give each stock record an item with the units that oscar says are left."

    def handle(self, *args, **options):
        """Align each stock record in a transaction of its own, while the shop sells."""
        for pk in get_model("partner", "StockRecord").objects.values_list("pk", flat=True):
            with transaction.atomic():
                added = stock.align(stock.lock(pk))
            if added and options["verbosity"]:
                self.stdout.write(f"stock record {pk}: {added:+} units")
