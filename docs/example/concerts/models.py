"""The shop's own order: it points at its reservation, and `inventory` knows nothing of it."""

from django.db import models

from inventory.models import Reservation


class Booking(models.Model):
    """Seats that a guest has booked."""

    reservation = models.OneToOneField(Reservation, on_delete=models.PROTECT, primary_key=True)
    seats = models.PositiveIntegerField()
    status = models.CharField(max_length=10, default="open")  # then paid, or gone
