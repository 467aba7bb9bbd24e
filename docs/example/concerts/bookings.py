"""Book, pay and expire: the shop's steps, each with its step of `inventory`."""

from collections.abc import Sequence
from datetime import timedelta
from uuid import UUID

from django.db import transaction

from concerts.models import Booking
from inventory import outbox, services
from inventory.outcomes import Granted, Outcome, Purchase

LIMIT = 4
HOLD = timedelta(minutes=10)


def book(concert: int, guest: int, key: UUID, seats: int) -> Outcome:
    """Book seats; `concert` is the id of its item."""
    purchase = Purchase(concert, concert, guest, key, seats, LIMIT, HOLD)
    return services.reserve(purchase, open_bookings)


def open_bookings(granted: Sequence[Granted]) -> list[Booking]:
    """Open the bookings of a whole batch, in the transaction that reserves the seats."""
    bookings = [
        Booking(reservation_id=each.reservation, seats=each.purchase.quantity) for each in granted
    ]
    outbox.emit("booked", {"bookings": [booking.pk for booking in bookings]})
    return Booking.objects.bulk_create(bookings)


def pay(booking: int) -> bool:
    """Record the payment; False if the seats were released before."""
    with transaction.atomic():
        if not services.confirm(booking):
            return False
        Booking.objects.filter(pk=booking).update(status="paid")
    return True


def expire() -> int:
    """Release the seats of unpaid bookings past their deadline; for cron or Celery beat."""
    return services.expire(
        lambda gone: Booking.objects.filter(pk__in=[each.reservation for each in gone]).update(
            status="gone"
        )
    )


def follow_up() -> int:
    """Do the follow-up of bookings, in the background and at least once."""
    return outbox.deliver({"booked": lambda payload: print("tickets for", payload["bookings"])})
