"""Buying: everything between a parsed request and an order or a refusal.

Called by the API and by the page's form alike.
"""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID

from django.contrib.auth.models import User
from django.db import IntegrityError, InterfaceError, OperationalError

from inventory import services
from inventory.outcomes import (
    Busy,
    Declined,
    Granted,
    LimitReached,
    OutcomeUnknown,
    Purchase,
    SoldOut,
)
from inventory.selling.guard import NoSuchItem
from shop.catalogue.sale_cache import CachedSale, NoSuchSale, SaleCache, sale_cache
from shop.checkout.availability_cache import availability_cache
from shop.messages import Refusal
from shop.orders import Opened, open_orders
from shop.orders.models import Order

MOST_UNITS = 1000
"""Largest quantity of one order; far above any limit, far below what a column holds."""


@dataclass(frozen=True, slots=True)
class Bought:
    """An order, and whether an earlier request with the same key had opened it."""

    order: Order | Opened
    replayed: bool


def buy(sale: int, buyer: int, key: UUID, quantity: int) -> Bought:
    """Buy units in a sale.

    Args:
        sale: id of the sale.
        buyer: id of the user.
        key: the buyer's idempotency key.
        quantity: units.

    Raises:
        Refusal: with the code of the reason.
    """
    if not 1 <= quantity <= MOST_UNITS:
        raise Refusal("invalid_quantity")
    try:
        notice = sale_cache().get(sale)
    except NoSuchSale:
        raise Refusal("not_found") from None
    except (OperationalError, InterfaceError) as error:
        raise Refusal("busy") from error
    purchase = Purchase(notice.item, sale, buyer, key, quantity, notice.limit, notice.hold)
    closed = notice.closed()
    if closed is not None:
        return _replay_or_refuse(purchase, closed)
    return _buy(purchase, notice)


def _buy(purchase: Purchase, notice: CachedSale) -> Bought:
    try:
        outcome = services.reserve(purchase, open_orders, by=notice.strategy)
    except Declined:
        raise Refusal(_why_declined(sale_cache(), notice)) from None
    except Busy as error:
        raise Refusal("busy") from error
    except OutcomeUnknown as error:
        raise Refusal("outcome_unknown") from error
    except NoSuchItem:
        raise Refusal("not_found") from None
    except IntegrityError:
        if User.objects.filter(pk=purchase.buyer).exists():
            raise
        # A token outlives a buyer who was deleted.
        raise Refusal("unauthorized") from None
    if isinstance(outcome, Granted):
        if outcome.opened is not None:
            return Bought(outcome.opened, outcome.replayed)
        return _replay(outcome.reservation)
    if isinstance(outcome, SoldOut):
        raise _sold_out(purchase.item, outcome)
    if isinstance(outcome, LimitReached):
        raise Refusal("limit_reached", left=outcome.left)
    raise Refusal("idempotency_key_reused")


def _sold_out(item: int, outcome: SoldOut) -> Refusal:
    refusal = Refusal("sold_out", available=outcome.available)
    if availability_cache().may(item):
        refusal.more["may_come_back"] = True
    return refusal


def _replay_or_refuse(purchase: Purchase, closed: str) -> Bought:
    """The sale is closed; a key that was granted while it was open still gets its order."""
    try:
        outcome = services.find(purchase)
        if isinstance(outcome, Granted):
            return _replay(outcome.reservation)
    except (OperationalError, InterfaceError) as error:
        raise Refusal("busy") from error
    if outcome is not None:
        raise Refusal("idempotency_key_reused")
    raise Refusal(closed)


def _replay(reservation: int) -> Bought:
    try:
        order = Order.objects.with_lines().get(lines=reservation)
    except (OperationalError, InterfaceError) as error:
        raise Refusal("outcome_unknown") from error
    if order.sale_id is None:
        # The key of a cart, of which this is the first line.
        raise Refusal("idempotency_key_reused")
    return Bought(order, replayed=True)


def _why_declined(sales: SaleCache, notice: CachedSale) -> str:
    """The database said no where this process's memory had said yes: look again."""
    try:
        return sales.refresh(notice.sale).closed() or "paused"
    except NoSuchSale:
        return "not_found"
    except (OperationalError, InterfaceError):
        return "busy"
