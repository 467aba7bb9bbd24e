"""Which item guards a stock record, and which reservation a line of an order has."""

from django.db import models

from inventory.models import Item, Reservation


class GuardedStock(models.Model):
    """The item of a stock record. At every commit it has as many units as oscar says are left."""

    stockrecord = models.OneToOneField(
        "partner.StockRecord", models.CASCADE, primary_key=True, related_name="guarded"
    )
    item = models.OneToOneField(Item, models.PROTECT)

    def __str__(self):
        return str(self.item)


class Allocation(models.Model):
    """The reservation of an order's line. Lines older than the guard have none."""

    line = models.OneToOneField("order.Line", models.CASCADE, primary_key=True)
    reservation = models.OneToOneField(Reservation, models.PROTECT)

    def __str__(self):
        return str(self.reservation)
