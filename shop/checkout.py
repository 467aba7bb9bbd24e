"""Checkout: from a parsed request to an order or a refusal.

The API and the pages' forms call `buy` for one sale and `check_out` for a cart; a single purchase
is handled as a cart of one line. The steps:

1. Refuse what can be refused without the database: too many requests, bad quantities, and a closed
   sale or a changed price by the sale cache. If the sale is closed or costs more by now, an earlier
   purchase with the same key still gets its order.
2. Reserve the units and open the order in one transaction (`inventory.services.reserve_many`, which
   calls `open_orders`). This transaction reads the sale and the price again and decides.
3. Turn its outcome or error into an order or a `Refusal`.
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
"""Maximum units per line; far above any sale's limit, far below what a column can hold."""

MAX_BUYERS = 50_000
"""Buckets per generation, about 10 MB. A bucket that is forgotten counts as full again."""

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
    """An order for the buyer.

    Attributes:
        order: the order.
        replayed: whether an earlier request with the same key opened it.
    """

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
    """Return the quotas that a purchase counts against, besides the sale's limit per buyer.

    There are none as delivered. A shop that limits more returns its quotas here; docs/changing.md
    shows one unit per address, and a limit over all sizes of a product.

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
        expected_amount: the most that the buyer expects the order to cost, in minor units. If it
            costs more, the order is refused as `price_changed`; if less, the buyer pays less. None:
            any price.
        early_code: the buyer's code for buying before the sale opens for all; empty for none.

    Raises:
        Refusal: the purchase was refused; `code` says why.
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
        expected_amount: as for `buy`, for the whole order.
        early_code: as for `buy`.

    Raises:
        Refusal: the cart was refused; it names the `sale` of the line that it is about.
    """
    if not limiter().allows(buyer):
        raise Refusal("rate_limited")
    # Sorted by sale, so that a repeated cart makes the same purchases in the same order.
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
        purchases: lines of one buyer, in order of their sales.
        sales: the sale of each line.
        names_lines: whether a refusal names the sale that it is about.
    """
    first = purchases[0]
    refusal = _early_refusal(purchases, sales, names_lines=names_lines)
    if refusal is not None:
        return _replay_or_refuse(purchases, refusal)
    try:
        answer = services.reserve_many(purchases, open_orders)
    except RESERVATION_ERRORS as error:
        raise _refusal_for_error(error, first.buyer, names_lines=names_lines) from error
    if isinstance(answer, LineRefused):
        refused = purchases[answer.position]
        line = refused.scope if names_lines else None
        raise _refusal_for_outcome(answer.outcome, refused.item, line)
    if answer[0].opened is None:
        # The key was used before this batch: its order is in the database.
        return _order_of(answer, first)
    bought = Bought(answer[0].opened, answer[0].replayed)
    return _check_details(bought, first) if bought.replayed else bought


def _won_or_refuse(sale: int, buyer: int, quantity: int) -> Bought:
    """Return the order that the buyer has in a sale by draw; refuse a buyer who has none.

    Only the draw opens orders in such a sale, so a buyer with an order has won. The units of an
    order that was cancelled or not paid in time went to the next winner.
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
    except (Busy, OutcomeUnknown, OperationalError, InterfaceError) as error:
        raise Refusal("busy") from error


def _early_refusal(
    purchases: Sequence[DetailedPurchase], sales: Sequence[CachedSale], *, names_lines: bool
) -> Refusal | None:
    """Return the refusal that an order would get in the end, by the cached sales; None if none.

    It saves the transaction. Where this finds no reason, the transaction reads the sale and the
    price again and decides.
    """
    first = purchases[0]
    try:
        for cached in sales:
            if (closed := cached.closed(first.buyer, first.early_code)) is not None:
                return Refusal(closed, sale=cached.sale if names_lines else None)
        amount, expected = _amount(purchases, sales), first.expected_amount
        if amount <= (MAX_AMOUNT if expected is None else expected):
            return None
        # Before a refusal the price is read again: the cached one may be older than the price that
        # the buyer saw. So only refusals cost this query.
        amount = _amount(purchases, [sale_cache().refresh(cached.sale) for cached in sales])
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
    """Return what an order costs by the cached prices, with its fees, in minor units."""
    if fees_function(settings.FEES) is None:  # nothing depends on the details
        amount = 0
        for purchase, cached in zip(purchases, sales, strict=True):
            amount += cached.price * purchase.quantity
        return amount
    lines = [
        PricedLine(purchase.scope, purchase.quantity, cached.price)
        for purchase, cached in zip(purchases, sales, strict=True)
    ]
    details = complete(purchases[0].details)
    return total(Basket(lines, sales[0].currency, details)).amount


def _refusal_for_outcome(
    outcome: SoldOut | LimitReached | KeyReused, item: int, line: int | None = None
) -> Refusal:
    if isinstance(outcome, SoldOut):
        may_come_back = availability_cache().may(item) or None
        return Refusal(
            "sold_out", available=outcome.available, may_come_back=may_come_back, sale=line
        )
    if isinstance(outcome, LimitReached):
        return Refusal("limit_reached", left=outcome.left, sale=line)
    return Refusal("idempotency_key_reused")


def _refusal_for_error(error: Exception, buyer: int, *, names_lines: bool) -> Refusal:
    """Return the refusal for a failed reservation; raise an unexpected error again."""
    if isinstance(error, PurchasesRefused):
        # Raised by a seller that sells one purchase per transaction; the queue takes it apart.
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
    # The buyer was deleted, but the buyer's token is still valid for a while.
    return Refusal("unauthorized")


def _why_closed(sale: int, line: int | None) -> Refusal:
    """Return the reason for which the transaction refused a purchase that the cache had allowed."""
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
    """Return the order of an earlier purchase with the same keys, although the sale is closed now.

    Raises:
        Refusal: `closed` if there is none; `idempotency_key_reused` if the purchase was another.
    """
    try:
        found = [services.find(purchase) for purchase in purchases]
    except (OperationalError, InterfaceError) as error:
        raise Refusal("busy") from error
    if not any(found):
        raise closed
    granted = [outcome for outcome in found if isinstance(outcome, Granted)]
    if len(granted) < len(found):
        raise Refusal("idempotency_key_reused")
    return _order_of(granted, purchases[0])


def _order_of(granted: Sequence[Granted], purchase: DetailedPurchase) -> Bought:
    """Read the order of committed reservations from the database."""
    try:
        order = Order.objects.with_lines().get(lines=granted[0].reservation)
    except (OperationalError, InterfaceError) as error:
        raise Refusal("outcome_unknown") from error
    if len(order.lines.all()) != len(granted):
        # The key belongs to a larger cart that starts with these lines.
        raise Refusal("idempotency_key_reused")
    return _check_details(Bought(order, replayed=True), purchase)


def _check_details(bought: Bought, purchase: DetailedPurchase) -> Bought:
    """Return the order; refuse a repeated key whose request states other details than the first."""
    if bought.order.details != complete(purchase.details):
        raise Refusal("idempotency_key_reused")
    return bought


class Limiter:
    """Limits each buyer's requests per second, with bursts of twice that: token buckets (Turner,
    1986).

    It keeps bots from filling the queue that buyers wait in. Processes do not share it: asking
    Redis for each request would cost more than the requests that it refuses. So the limit for the
    whole shop is this limit times the number of processes.

    Args:
        rate: requests per second; 0 means no limit.
    """

    def __init__(self, rate: float) -> None:
        self._rate = rate
        self._burst = 2 * rate
        # Two generations of buckets: when the young one is full, it replaces the old one, whose
        # buyers have not returned since. So no list of ages is needed.
        self._young: dict[int, tuple[float, float]] = {}
        self._old: dict[int, tuple[float, float]] = {}

    def allows(self, buyer: int) -> bool:
        """Return whether the buyer may send a request now; if so, count it."""
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
