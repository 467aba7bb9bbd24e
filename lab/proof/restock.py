"""The stock of a proof's sale, restocked in the database."""

from __future__ import annotations

from django.db import Error, connection, transaction
from redis.exceptions import RedisError

from inventory import services
from inventory.models import Item
from inventory.selling import guard
from inventory.selling.commit import forget_connection
from shop.catalogue.models import Sale


class DatabaseShelf:
    """A sale's item; `tells` says whether a restock removes the sold-out hint."""

    errors: tuple[type[Exception], ...] = (Error, RedisError)

    def __init__(self, sale: Sale, *, tells: bool = True) -> None:
        self.sale, self.item = str(sale.pk), str(sale.item_id)
        self._id, self._tells = sale.item_id, tells

    def left(self) -> int | None:
        """Return the units available; None if the database does not say."""
        try:
            return Item.objects.values_list("available", flat=True).get(pk=self._id)
        except Error:
            forget_connection()
            return None

    def add(self, units: int) -> None:
        """Add units."""
        try:
            if self._tells:
                services.restock(self._id, units)
                return
            with transaction.atomic():
                guard.restock(self._id, units)
        except self.errors:
            forget_connection()
            raise

    def close(self) -> None:
        """Close the thread's connection."""
        connection.close()
