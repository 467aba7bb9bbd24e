"""``manage.py rush``: two hundred guests, fifty seats."""

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from uuid import uuid4

from django.core.management.base import BaseCommand
from django.db import connection

from concerts.bookings import book, follow_up, pay
from concerts.models import Booking
from inventory import services
from inventory.audit import audit


class Command(BaseCommand):
    """Make all purchases at once, and count the answers."""

    def handle(self, **options: object) -> None:  # noqa: D102
        concert = services.stock("a concert", 50).pk

        def come(guest: int) -> str:
            try:
                return type(book(concert, guest, uuid4(), 1)).__name__
            finally:
                connection.close()

        with ThreadPoolExecutor(50) as crowd:
            answers = Counter(crowd.map(come, range(200)))
        paid = sum(pay(booking.pk) for booking in Booking.objects.all()[:20])
        follow_up()
        report = audit([concert])
        [book_of] = report.items
        self.stdout.write(
            f"{dict(answers)}, {Booking.objects.count()} bookings, {paid} paid, "
            f"{book_of.available} seats left, problems: {report.problems}"
        )
