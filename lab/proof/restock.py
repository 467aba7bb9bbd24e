"""New units for the sale of a proof that has to last."""

from __future__ import annotations

import threading
from pathlib import Path

from django.db import Error, connection, transaction
from redis.exceptions import RedisError

from inventory import services
from inventory.models import Item
from inventory.selling import guard
from inventory.selling.commit import forget_connection
from loadtest.steps import Restocks
from shop.catalogue.models import Sale

LOOK = 0.5
"""Seconds between two looks at the stock."""

PLENTY_LOOK = 0.1
"""Seconds between two looks while the sale must not run out."""


class Restocker:
    """Restocks a sale from a thread of its own; each time is an operation of the history.

    Args:
        sale: what is sold.
        units: each time.
        folder: for the history.
        tells: whether a restock removes the sold-out hint; off in a negative control.
        most: how often, at most.

    Attributes:
        plenty: whether to restock at once, while a fault needs a shop that sells.
    """

    def __init__(
        self, sale: Sale, units: int, folder: Path, *, tells: bool = True, most: int | None = None
    ) -> None:
        self._sale, self._units, self._tells = sale, units, tells
        self._restocks = Restocks(
            str(sale.pk), units, folder, self._add, (Error, RedisError), most=most
        )
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"restocks-{sale.pk}", daemon=True)
        self.plenty = False

    @property
    def times(self) -> int:
        """The number of restocks so far."""
        return self._restocks.times

    @property
    def path(self) -> Path:
        """The history."""
        return self._restocks.path

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """Wait for the last restock to finish, and close the history."""
        self._end.set()
        self._thread.join()
        self._restocks.close()

    def abandon(self) -> None:
        """End without waiting: the shop is being removed."""
        self._end.set()

    def _run(self) -> None:
        item = str(self._sale.item_id)
        try:
            while not self._end.wait(PLENTY_LOOK if self.plenty else LOOK):
                self._restocks.look(item, self._left(), at_once=self.plenty)
        finally:
            connection.close()

    def _left(self) -> int | None:
        """Units available; None if the database does not say."""
        try:
            return Item.objects.values_list("available", flat=True).get(pk=self._sale.item_id)
        except Error:
            forget_connection()
            return None

    def _add(self) -> None:
        try:
            if self._tells:
                services.restock(self._sale.item_id, self._units)
                return
            with transaction.atomic():
                guard.restock(self._sale.item_id, self._units)
        except (Error, RedisError):
            forget_connection()
            raise
