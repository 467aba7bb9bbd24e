"""Buying a cart: lines of several sales in one order, all or nothing."""

from __future__ import annotations

from collections.abc import Sequence
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
from inventory.selling.reserve_many import MOST_LINES, LineRefused, line_keys
from shop.catalogue.sale_cache import CachedSale, NoSuchSale, sale_cache
from shop.checkout.purchase import MOST_UNITS, Bought
from shop.messages import Refusal
from shop.orders.cart_creation import open_cart
from shop.orders.models import Order


@dataclass(frozen=True, slots=True)
class Wanted:
    """A line of a cart.

    Attributes:
        sale: id of the sale.
        quantity: units.
    """

    sale: int
    quantity: int


def check_out(buyer: int, key: UUID, wanted: Sequence[Wanted]) -> Bought:
    """Buy all lines of a cart, or none.

    Args:
        buyer: id of the user.
        key: the buyer's idempotency key, for the cart as a whole.
        wanted: its lines, each of another sale, in any order.

    Raises:
        Refusal: with the code of the reason, and ``sale``, the line that it is about.
    """
    # In one order, whatever the client's: it makes the same cart the same purchases again.
    lines = sorted(wanted, key=lambda line: line.sale)
    _check(lines)
    notices = [_look(line.sale) for line in lines]
    if len({notice.currency for notice in notices}) > 1:
        raise Refusal("invalid_cart")
    # One order has one time to pay, the shortest.
    hold = min(notice.hold for notice in notices)
    purchases = [
        Purchase(notice.item, line.sale, buyer, each, line.quantity, notice.limit, hold)
        for line, notice, each in zip(lines, notices, line_keys(key, len(lines)), strict=True)
    ]
    for notice in notices:
        if (closed := notice.closed()) is not None:
            return _replay_or_refuse(purchases, Refusal(closed, sale=notice.sale))
    return _buy(purchases)


def _check(lines: Sequence[Wanted]) -> None:
    if not 1 <= len(lines) <= MOST_LINES or len({line.sale for line in lines}) < len(lines):
        raise Refusal("invalid_cart")
    for line in lines:
        if not 1 <= line.quantity <= MOST_UNITS:
            raise Refusal("invalid_quantity", sale=line.sale)


def _look(sale: int) -> CachedSale:
    try:
        return sale_cache().get(sale)
    except NoSuchSale:
        raise Refusal("not_found", sale=sale) from None
    except (OperationalError, InterfaceError) as error:
        raise Refusal("busy") from error


def _buy(purchases: Sequence[Purchase]) -> Bought:
    try:
        outcome = services.reserve_many(purchases, open_cart)
    except Declined as declined:
        raise _why_declined(min(declined.scopes)) from None
    except Busy as error:
        raise Refusal("busy") from error
    except OutcomeUnknown as error:
        raise Refusal("outcome_unknown") from error
    except NoSuchItem:
        raise Refusal("not_found") from None
    except IntegrityError:
        if User.objects.filter(pk=purchases[0].buyer).exists():
            raise
        # A token outlives a buyer who was deleted.
        raise Refusal("unauthorized") from None
    if isinstance(outcome, LineRefused):
        raise _refusal(outcome, purchases)
    if outcome[0].replayed:
        return _replay(outcome)
    return Bought(outcome[0].opened, replayed=False)


def _refusal(refused: LineRefused, purchases: Sequence[Purchase]) -> Refusal:
    sale, outcome = purchases[refused.position].scope, refused.outcome
    if isinstance(outcome, SoldOut):
        return Refusal("sold_out", sale=sale, available=outcome.available)
    if isinstance(outcome, LimitReached):
        return Refusal("limit_reached", sale=sale, left=outcome.left)
    return Refusal("idempotency_key_reused")


def _replay_or_refuse(purchases: Sequence[Purchase], closed: Refusal) -> Bought:
    """A sale is closed; a cart that was granted while it was open still gets its order."""
    try:
        found = [services.find(purchase) for purchase in purchases]
        if not any(found):
            raise closed
        granted = [each for each in found if isinstance(each, Granted)]
        if len(granted) < len(found):
            raise Refusal("idempotency_key_reused")
    except (OperationalError, InterfaceError) as error:
        raise Refusal("busy") from error
    return _replay(granted)


def _replay(granted: Sequence[Granted]) -> Bought:
    try:
        order = Order.objects.with_lines().get(lines=granted[0].reservation)
    except (OperationalError, InterfaceError) as error:
        raise Refusal("outcome_unknown") from error
    if len(order.lines.all()) != len(granted):
        # The first lines of a longer cart.
        raise Refusal("idempotency_key_reused")
    return Bought(order, replayed=True)


def _why_declined(sale: int) -> Refusal:
    """The database said no where this process's memory had said yes: look again."""
    try:
        return Refusal(sale_cache().refresh(sale).closed() or "paused", sale=sale)
    except NoSuchSale:
        return Refusal("not_found", sale=sale)
    except (OperationalError, InterfaceError):
        return Refusal("busy")
