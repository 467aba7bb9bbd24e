"""The shop's order, which points at its reservation; `inventory` does not know it."""

from django.db import models

from inventory.models import Reservation


class Booking(models.Model):
    """Seats that a guest has booked."""

    reservation = models.OneToOneField(Reservation, on_delete=models.PROTECT, primary_key=True)
    seats = models.PositiveIntegerField()
    status = models.CharField(max_length=10, default="open")  # then paid, or gone
