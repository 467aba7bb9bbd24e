"""New units for a sale that has to last: put on the shelf when it is empty, and written down."""

from __future__ import annotations

import threading
import time
from itertools import count
from pathlib import Path

from django.db import Error, connection, transaction
from redis.exceptions import RedisError

from inventory import services
from inventory.models import Item
from inventory.selling import guard
from inventory.selling.commit import forget_connection
from loadtest.history import Recorder
from shop.catalogue.models import Sale

LOOK = 0.5
"""Seconds between two looks at the shelf."""

EMPTY = 1.5
"""Seconds that it stays empty, so that buyers are told so, and wait for those who give up."""

PLENTY_LOOK = 0.1
"""Seconds between two looks while the shelf is to be full."""

NAME = "restocks"
"""How the history file begins, and the name of the client in it: one for each sale."""


class Restocker:
    """Restocks a sale from a thread of its own; each time is an operation of the history.

    Args:
        sale: what is sold.
        units: each time.
        folder: for the history.
        tells: remove the sold-out hint, as it must be; off in a negative control.
    """

    def __init__(self, sale: Sale, units: int, folder: Path, *, tells: bool = True) -> None:
        self._sale, self._units, self._tells = sale, units, tells
        self._name = f"{NAME}-{sale.pk}"
        self._recorder = Recorder(folder / f"{self._name}.jsonl")
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)
        self.times = 0
        # Set while a fault needs a shop that sells.
        self.plenty = False

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """No more units; returns when the last restock is over."""
        self._end.set()
        self._thread.join()
        self._recorder.close()

    def _run(self) -> None:
        since = None
        calls = (f"{self._name}#{number}" for number in count(1))
        try:
            while not self._end.wait(PLENTY_LOOK if self.plenty else LOOK):
                if self._left() != 0:
                    since = None
                    continue
                since = since or time.monotonic()
                if self.plenty or time.monotonic() - since >= EMPTY:
                    self._restock(next(calls))
                    since = None
        finally:
            connection.close()

    def _left(self) -> int | None:
        """Units on the shelf; None if the database does not say."""
        try:
            return Item.objects.values_list("available", flat=True).get(pk=self._sale.item_id)
        except Error:
            forget_connection()
            return None

    def _restock(self, call: str) -> None:
        self._recorder.invoke(
            call,
            "restock",
            client=self._name,
            buyer=self._name,
            sale=str(self._sale.pk),
            item=str(self._sale.item_id),
            quantity=self._units,
        )
        status, code = 200, ""
        try:
            self._add()
            self.times += 1
        except (Error, RedisError) as error:
            # It may have been committed: unknown, as for any other client.
            status, code = 0, type(error).__name__
            forget_connection()
        self._recorder.complete(call, "restock", status=status, code=code)

    def _add(self) -> None:
        if self._tells:
            services.restock(self._sale.item_id, self._units)
            return
        with transaction.atomic():
            guard.restock(self._sale.item_id, self._units)
