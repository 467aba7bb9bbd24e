"""Which strategy sells a sale: chosen when it is opened or later, and known to each process."""

from __future__ import annotations

import threading
import time
from collections.abc import Collection
from typing import Any

from django.db import InterfaceError, OperationalError, transaction

from inventory.outcomes import Busy, Cart, CartAnswer
from inventory.postgresql.base import lend_connections
from inventory.selling.commit import forget_connection
from lab.models import SaleStrategy
from lab.strategies import DEFAULT, strategy
from shop.catalogue import sales
from shop.catalogue.models import Sale


def open_sale(*, strategy: str = DEFAULT, **terms: Any) -> Sale:
    """Create a sale that is sold by a strategy.

    Args:
        strategy: its name.
        terms: of `shop.catalogue.sales.open_sale`.

    Raises:
        ValidationError: an argument is invalid; nothing was created.
    """
    with transaction.atomic():
        sale = sales.open_sale(**terms)
        choose(sale, strategy)
    return sale


def choose(sale: Sale, strategy: str) -> None:
    """Let a sale be sold by a strategy from now on; web processes follow within a second.

    Raises:
        ValidationError: there is no such strategy, or it is not allowed.
    """
    chosen = SaleStrategy(sale=sale, name=strategy)
    chosen.clean_fields()
    chosen.clean()
    SaleStrategy.objects.update_or_create(sale=sale, defaults={"name": strategy})


def chosen(sale: int) -> str:
    """Return the name of a sale's strategy as the database has it now."""
    found = SaleStrategy.objects.filter(sale=sale).values_list("name", flat=True).first()
    return found or DEFAULT


FRESH = 1.0
"""Seconds for which the names that were read are used."""

IN_DEMAND = 10.0
"""Seconds since a sale was last asked for, after which its name is forgotten."""


class BySale:
    """Sells a purchase by the strategy of the sale that is its scope, and a cart by the default."""

    def __init__(self) -> None:
        self._names = StrategyNames()

    def sell(self, cart: Cart) -> CartAnswer:
        """Sell to one buyer and commit; see `inventory.selling.queue.Seller.sell`."""
        name = self._names.get(cart.lines[0].scope) if len(cart.lines) == 1 else DEFAULT
        return strategy(name).sell(cart)


class StrategyNames:
    """Names of strategies by sale; those in demand are read again together, each second.

    One thread reads at a time. While known names are read again, the other threads use the old
    ones; a sale that is not known yet is waited for, so that its first purchase is sold right.
    """

    def __init__(self) -> None:
        self._reading = threading.Lock()
        self._names: dict[int, str] = {}
        self._asked_at: dict[int, float] = {}
        self._fresh_until = 0.0

    def get(self, sale: int) -> str:
        """Return the name of a sale's strategy.

        Raises:
            Busy: the database cannot be reached, and the sale is not known.
        """
        now = self._asked_at[sale] = time.monotonic()
        if now >= self._fresh_until and self._reading.acquire(blocking=False):
            try:
                self._read_again()
            finally:
                self._reading.release()
        return self._names.get(sale) or self._wait_for(sale)

    def _read_again(self) -> None:
        began = time.monotonic()
        self._asked_at = {
            sale: asked_at
            for sale, asked_at in list(self._asked_at.items())
            if began - asked_at < IN_DEMAND
        }
        try:
            self._names = _read(list(self._asked_at))
        except Busy:
            return  # what is known is used until the database is back
        self._fresh_until = began + FRESH

    def _wait_for(self, sale: int) -> str:
        # The reader needs a connection, and those who wait for it must not have them all.
        lend_connections()
        with self._reading:
            if sale not in self._names:
                # Together with the sales that others wait for.
                unknown = {sale, *list(self._asked_at)} - self._names.keys()
                self._names.update(_read(unknown))
            return self._names[sale]


def _read(sales: Collection[int]) -> dict[int, str]:
    try:
        found = dict(SaleStrategy.objects.filter(sale__in=sales).values_list("sale", "name"))
    except (OperationalError, InterfaceError) as error:
        forget_connection()
        raise Busy("the database cannot be reached") from error
    return {sale: found.get(sale, DEFAULT) for sale in sales}
