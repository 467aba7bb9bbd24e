"""Buy: from a parsed request to an order or a refusal.

Used by the API and the pages' forms. A single purchase is a cart of one line.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from uuid import UUID

from django.conf import settings
from django.db import IntegrityError, InterfaceError, OperationalError

from inventory import services
from inventory.hooks import hooks
from inventory.outcomes import (
    MAX_LINES,
    Busy,
    Granted,
    KeyReused,
    LimitReached,
    LineRefused,
    NoSuchItem,
    OutcomeUnknown,
    PurchasesRefused,
    Quota,
    SoldOut,
    line_keys,
)
from shop.accounts.models import User
from shop.catalogue.models import Sale
from shop.catalogue.sale_cache import (
    CachedSale,
    NoSuchSale,
    availability_cache,
    sale_cache,
    why_closed,
)
from shop.money import MAX_AMOUNT
from shop.orders import (
    AmountTooLarge,
    Opened,
    PriceChanged,
    SaleClosed,
    open_orders,
)
from shop.orders.details import DetailedPurchase, Details, complete
from shop.orders.models import Order
from shop.orders.totals import Basket, PricedLine, fees_function, total
from shop.refusals import Refusal

MAX_UNITS = 1000
"""Units per line; far above any limit, far below what a column can hold."""

MAX_BUYERS = 50_000
"""Buckets per generation, about 10 MB; older ones are forgotten, which makes them full."""

NO_DETAILS: Details = {}

RESERVATION_ERRORS = (
    AmountTooLarge,
    Busy,
    IntegrityError,
    NoSuchItem,
    OutcomeUnknown,
    PriceChanged,
    PurchasesRefused,
    SaleClosed,
)
"""Errors of a reservation that become refusals."""


@dataclass(frozen=True, slots=True)
class Bought:
    """An order, and whether an earlier request with the same key opened it."""

    order: Order | Opened
    replayed: bool


@dataclass(frozen=True, slots=True)
class Wanted:
    """A line of a cart.

    Attributes:
        sale: id of the sale.
        quantity: units.
    """

    sale: int
    quantity: int


def further_quotas(sale: CachedSale, buyer: int, details: Details) -> tuple[Quota, ...]:
    """Return what a purchase counts against besides the sale's limit per buyer.

    As it comes, nothing. A shop that limits more returns it here; docs/changing.md has one per
    address, and a limit over all sizes of a product.

    Args:
        sale: the sale.
        buyer: id of the user.
        details: what the buyer states with the order, by the names in `Order.DETAILS`.
    """
    return ()


def buy(
    sale: int,
    buyer: int,
    key: UUID,
    quantity: int,
    details: Details = NO_DETAILS,
    *,
    expected_amount: int | None = None,
    early_code: str = "",
) -> Bought:
    """Buy units in a sale.

    Args:
        sale: id of the sale.
        buyer: id of the user.
        key: the buyer's idempotency key.
        quantity: units.
        details: what the buyer states with the order.
        expected_amount: what the buyer expects the order to cost at most, in minor units. A higher
            price is refused as `price_changed`, a lower one is sold at the lower. None: any price.
        early_code: the buyer's code for buying before the sale opens for all; empty for none.

    Raises:
        Refusal: with its code.
    """
    if not limiter().allows(buyer):
        raise Refusal("rate_limited")
    if not 1 <= quantity <= MAX_UNITS:
        raise Refusal("invalid_quantity")
    cached = _cached(sale)
    if cached.kind == Sale.Kind.DRAW:
        return _won_or_refuse(sale, buyer, quantity)
    purchase = DetailedPurchase(
        item=cached.item,
        scope=sale,
        buyer=buyer,
        key=key,
        quantity=quantity,
        limit=cached.limit,
        hold=cached.hold,
        quotas=further_quotas(cached, buyer, details),
        trace=hooks.current(),
        details=details,
        expected_amount=expected_amount,
        early_code=early_code,
    )
    return _reserve([purchase], [cached])


def check_out(
    buyer: int,
    key: UUID,
    wanted: Sequence[Wanted],
    details: Details = NO_DETAILS,
    *,
    expected_amount: int | None = None,
    early_code: str = "",
) -> Bought:
    """Buy all lines of a cart in one order, or none.

    Args:
        buyer: id of the user.
        key: the buyer's idempotency key for the whole cart.
        wanted: the lines, each of a different sale, in any order.
        details: what the buyer states with the order.
        expected_amount: of the whole order; as for `buy`.
        early_code: as for `buy`.

    Raises:
        Refusal: with its code, and the line's `sale`.
    """
    if not limiter().allows(buyer):
        raise Refusal("rate_limited")
    # Sorted, so that a repeated cart makes the same purchases in the same order.
    lines = sorted(wanted, key=lambda line: line.sale)
    _check(lines)
    sales = [_cached(line.sale, line.sale) for line in lines]
    for cached in sales:
        if cached.kind == Sale.Kind.DRAW:
            raise Refusal("draw_only", sale=cached.sale)
    if len({cached.currency for cached in sales}) > 1:
        raise Refusal("invalid_cart")
    # An order has one deadline, the shortest.
    hold = min(cached.hold for cached in sales)
    purchases = [
        DetailedPurchase(
            item=cached.item,
            scope=line.sale,
            buyer=buyer,
            key=line_key,
            quantity=line.quantity,
            limit=cached.limit,
            hold=hold,
            quotas=further_quotas(cached, buyer, details),
            trace=hooks.current(),
            details=details,
            expected_amount=expected_amount,
            early_code=early_code,
        )
        for line, cached, line_key in zip(lines, sales, line_keys(key, len(lines)), strict=True)
    ]
    return _reserve(purchases, sales, names_lines=True)


def _reserve(
    purchases: Sequence[DetailedPurchase],
    sales: Sequence[CachedSale],
    *,
    names_lines: bool = False,
) -> Bought:
    """Reserve the lines of an order and open it.

    Args:
        purchases: of one buyer, in order of their sales.
        sales: theirs.
        names_lines: whether a refusal names the sale that it is about.
    """
    first = purchases[0]
    if (why := _why_not(purchases, sales, names_lines=names_lines)) is not None:
        return _replay_or_refuse(purchases, why)
    try:
        answer = services.reserve_many(purchases, open_orders)
    except RESERVATION_ERRORS as error:
        raise _not_sold(error, first.buyer, names_lines=names_lines) from error
    if isinstance(answer, LineRefused):
        refused = purchases[answer.position]
        line = refused.scope if names_lines else None
        raise _refusal(answer.outcome, refused.item, line)
    if answer[0].opened is None:
        return _order_of(answer, first)
    bought = Bought(answer[0].opened, answer[0].replayed)
    return _same(bought, first) if bought.replayed else bought


def _won_or_refuse(sale: int, buyer: int, quantity: int) -> Bought:
    """Return the order that a winner of a draw has there; all other buyers are refused.

    Only the draw opens orders in its sale, so who has one has won. An order that was given up or
    not paid in time went to the next winner.
    """
    gone = (Order.Status.EXPIRED, Order.Status.CANCELLED)
    try:
        won = Order.objects.filter(lines__sale=sale, buyer=buyer).exclude(status__in=gone)
        order = won.with_lines().order_by("-pk").first()
    except (OperationalError, InterfaceError) as error:
        raise Refusal("busy") from error
    if order is None:
        raise Refusal("draw_only")
    if order.quantity < quantity:
        raise Refusal("limit_reached")
    return Bought(order, replayed=True)


def _check(lines: Sequence[Wanted]) -> None:
    if not 1 <= len(lines) <= MAX_LINES or len({line.sale for line in lines}) < len(lines):
        raise Refusal("invalid_cart")
    for line in lines:
        if not 1 <= line.quantity <= MAX_UNITS:
            raise Refusal("invalid_quantity", sale=line.sale)


def _cached(sale: int, line: int | None = None) -> CachedSale:
    try:
        return sale_cache().get(sale)
    except NoSuchSale:
        raise Refusal("not_found", sale=line) from None
    except (OperationalError, InterfaceError) as error:
        raise Refusal("busy") from error


def _why_not(
    purchases: Sequence[DetailedPurchase], sales: Sequence[CachedSale], *, names_lines: bool
) -> Refusal | None:
    """Return why an order is not worth trying, by what is cached: it would be refused in the end.

    Whether an order is opened is decided by the sale and the price that its own transaction reads.
    """
    first = purchases[0]
    try:
        for cached in sales:
            if (closed := cached.closed(first.buyer, first.early_code)) is not None:
                return Refusal(closed, sale=cached.sale if names_lines else None)
        amount, expected = _amount(purchases, sales), first.expected_amount
        if amount <= (MAX_AMOUNT if expected is None else expected):
            return None
        # Only refusals cost a query: the cached price may be older than the one the buyer saw.
        amount = _amount(purchases, [sale_cache().refresh(each.sale) for each in sales])
    except NoSuchSale:
        return Refusal("not_found")
    except (OperationalError, InterfaceError):
        return Refusal("busy")
    if amount > MAX_AMOUNT:
        return Refusal("amount_too_large")
    if expected is not None and amount > expected:
        return Refusal("price_changed", amount=amount)
    return None


def _amount(purchases: Sequence[DetailedPurchase], sales: Sequence[CachedSale]) -> int:
    if fees_function(settings.FEES) is None:  # nothing depends on the details
        amount = 0
        for each, cached in zip(purchases, sales, strict=True):
            amount += cached.price * each.quantity
        return amount
    lines = [
        PricedLine(each.scope, each.quantity, cached.price)
        for each, cached in zip(purchases, sales, strict=True)
    ]
    details = complete(purchases[0].details)
    return total(Basket(lines, sales[0].currency, details)).amount


def _refusal(
    outcome: SoldOut | LimitReached | KeyReused, item: int, line: int | None = None
) -> Refusal:
    if isinstance(outcome, SoldOut):
        coming = availability_cache().may(item) or None
        return Refusal("sold_out", available=outcome.available, may_come_back=coming, sale=line)
    if isinstance(outcome, LimitReached):
        return Refusal("limit_reached", left=outcome.left, sale=line)
    return Refusal("idempotency_key_reused")


def _not_sold(error: Exception, buyer: int, *, names_lines: bool) -> Refusal:
    """Return the refusal for a failed reservation; reraise other errors."""
    if isinstance(error, PurchasesRefused):
        # Of a strategy that sells one purchase per transaction.
        [error] = error.errors.values()
    if isinstance(error, SaleClosed):
        return _why_closed(error.sale, line=error.sale if names_lines else None)
    if isinstance(error, PriceChanged):
        return Refusal("price_changed", amount=error.amount)
    if isinstance(error, AmountTooLarge):
        return Refusal("amount_too_large")
    if isinstance(error, Busy):
        return Refusal("busy")
    if isinstance(error, OutcomeUnknown):
        return Refusal("outcome_unknown")
    if isinstance(error, NoSuchItem):
        return Refusal("not_found")
    try:
        if User.objects.filter(pk=buyer).exists():
            raise error
    except (OperationalError, InterfaceError):
        return Refusal("busy")  # nothing was written, whatever the reason is
    # A token outlives a deleted buyer.
    return Refusal("unauthorized")


def _why_closed(sale: int, line: int | None) -> Refusal:
    """Return why the database refused what the sale cache had allowed."""
    try:
        cached = sale_cache().refresh(sale)
        if cached.kind == Sale.Kind.DRAW:
            return Refusal("draw_only", sale=line)
        early = why_closed(cached, cached.now(), cached.early_starts_at)
        return Refusal(early or cached.closed() or "paused", sale=line)
    except NoSuchSale:
        return Refusal("not_found", sale=line)
    except (OperationalError, InterfaceError):
        return Refusal("busy")


def _replay_or_refuse(purchases: Sequence[DetailedPurchase], closed: Refusal) -> Bought:
    """Return the order of an earlier purchase although the sale is closed now."""
    try:
        found = [services.find(purchase) for purchase in purchases]
    except (OperationalError, InterfaceError) as error:
        raise Refusal("busy") from error
    if not any(found):
        raise closed
    granted = [each for each in found if isinstance(each, Granted)]
    if len(granted) < len(found):
        raise Refusal("idempotency_key_reused")
    return _order_of(granted, purchases[0])


def _order_of(granted: Sequence[Granted], purchase: DetailedPurchase) -> Bought:
    """Read the order of reservations that are committed."""
    try:
        order = Order.objects.with_lines().get(lines=granted[0].reservation)
    except (OperationalError, InterfaceError) as error:
        raise Refusal("outcome_unknown") from error
    if len(order.lines.all()) != len(granted):
        # The key belongs to a larger cart that starts with these lines.
        raise Refusal("idempotency_key_reused")
    return _same(Bought(order, replayed=True), purchase)


def _same(bought: Bought, purchase: DetailedPurchase) -> Bought:
    """Refuse a key's second request if it states other details than the first one."""
    if bought.order.details != complete(purchase.details):
        raise Refusal("idempotency_key_reused")
    return bought


class Limiter:
    """Lets each buyer through at a rate, in bursts of twice that: token buckets (Turner, 1986).

    It keeps bots from filling the queue that buyers wait in. Processes do not share it: asking
    Redis per request would cost more than the requests that it refuses. The total limit is the
    limit times the number of processes.

    Args:
        rate: requests per second; 0 means no limit.
    """

    def __init__(self, rate: float) -> None:
        self._rate = rate
        self._burst = 2 * rate
        # Two generations: when the young one is full it replaces the old one, whose buyers have not
        # returned since. This needs no list of ages.
        self._young: dict[int, tuple[float, float]] = {}
        self._old: dict[int, tuple[float, float]] = {}

    def allows(self, buyer: int) -> bool:
        """Whether the buyer may send a request now; if so, count it."""
        if not self._rate:
            return True
        now = time.monotonic()
        tokens, since = self._young.get(buyer) or self._old.get(buyer) or (self._burst, now)
        tokens = min(self._burst, tokens + (now - since) * self._rate)
        allowed = tokens >= 1
        self._young[buyer] = (tokens - 1 if allowed else tokens, now)
        if len(self._young) > MAX_BUYERS:
            self._young, self._old = {}, self._young
        return allowed


@cache
def limiter() -> Limiter:
    """Return the limiter of this process."""
    return Limiter(settings.SHOP_RATE_LIMIT)
