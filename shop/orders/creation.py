"""Open orders in the transaction that reserves their units.

`open_orders` is called by the inventory for all grants of a batch. One statement reads the sales
again (price, window, pause), writes the orders with their lines, and writes the outbox message from
which their mails and expiries follow. Nothing is committed here: the inventory takes the units and
commits everything afterwards, or nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from decimal import Decimal
from typing import Any, ClassVar, NamedTuple

from django.conf import settings
from django.db import connection, transaction
from msgspec import Struct
from psycopg import ClientCursor

from inventory import sql
from inventory.hooks import hooks
from inventory.outcomes import Granted, NotOpened, PurchasesRefused
from inventory.sql import Insert, Statement
from shop.money import MAX_AMOUNT
from shop.orders.details import DetailedPurchase, Details, complete
from shop.orders.models import Order, OrderFee, OrderLine
from shop.orders.totals import (
    Basket,
    Fee,
    PricedLine,
    fees_function,
    total,
)
from shop.orders.transitions import Step, take

OPENED = "orders.opened"

# The columns that the statement computes or that the buyer states. All other fields get their
# default from Django.
ORDER = {
    **{name: name for name in ("id", "buyer", "amount", "currency", "pay_before")},
    "created": "now()",
    **{name: f"details->>'{name}'" for name in Order.DETAILS},
}
LINE = {
    **{name: name for name in ("reservation", "sale", "quantity", "amount", "tax_rate")},
    "order": "id",
}

NO_FEES: Sequence[Fee] = ()

DEFAULTS = complete({})
"""The details of an order whose buyer states none."""

# The sale's row decides again, in the transaction and by the database's clock: price, window, pause
# and the buyers who may buy earlier are current, whatever a web process has cached. In a draw, only
# winners get orders, after the window. Ids are drawn before the insert, because the lines in the
# same statement need them; an order's id is the first id that is drawn for its lines. An amount
# that is too large for its column is -1; the order is then refused, so the value is not kept.
OPEN_ORDERS = Statement(
    """
WITH priced AS (
    SELECT nextval('shop_order_id_seq') AS drawn, granted.cart, granted.reservation, granted.sale,
           granted.buyer, granted.quantity, granted.details,
           CASE WHEN sale.price <= 9223372036854775807 / granted.quantity
                THEN sale.price * granted.quantity ELSE -1 END AS amount,
           sale.currency, product.tax_rate,
           now() + make_interval(secs => granted.hold) AS pay_before, granted.ordinality AS position
    FROM ROWS FROM (json_to_recordset(%(rows)s) AS (
        cart int, reservation bigint, sale bigint, buyer bigint, quantity int, hold float8,
        details json, early_code text
    )) WITH ORDINALITY AS granted
    JOIN shop_sale AS sale ON sale.id = granted.sale
     AND NOT sale.paused
     AND CASE WHEN %(won)s THEN sale.kind = 'draw'
              ELSE sale.kind = 'first_come' AND now() < sale.ends_at
                   AND (sale.starts_at <= now() OR sale.early_starts_at <= now() AND (
                        sale.early_code = NULLIF(granted.early_code, '')
                        OR EXISTS (SELECT FROM accounts_user_groups AS member
                                   WHERE member.group_id = sale.early_group_id
                                     AND member.user_id = granted.buyer))) END
    JOIN shop_product AS product ON product.id = sale.product_id
    ORDER BY position
), opening AS (
    SELECT *, min(drawn) OVER each_cart AS id,
           CASE WHEN min(amount) OVER each_cart >= 0
                 AND sum(amount) OVER each_cart <= 9223372036854775807
                THEN sum(amount) OVER each_cart ELSE -1 END AS total
    FROM priced WINDOW each_cart AS (PARTITION BY cart)
), heads AS (
    SELECT id, buyer, total AS amount, currency, pay_before, details, position
    FROM opening WHERE drawn = id
), orders AS (
    {order}
), lines AS (
    {line}
), message AS (
    INSERT INTO inventory_outboxmessage (topic, payload)
    SELECT 'orders.opened', jsonb_strip_nulls(
        jsonb_build_object('orders', jsonb_agg(id), 'traceparent', %(parent)s::text)
    ) FROM heads
    HAVING count(*) > 0
)
SELECT array_agg(id), array_agg(reservation), array_agg(amount), array_agg(currency),
       array_agg(tax_rate), now()
FROM opening
""",
    order=Insert(Order, ORDER, source="heads"),
    line=Insert(OrderLine, LINE, source="opening"),
)


class SaleClosed(NotOpened):
    """The sale is not open for the buyer. Nothing was sold.

    Attributes:
        sale: its id.
    """

    def __init__(self, sale: int) -> None:
        super().__init__(sale)
        self.sale = sale


class PriceChanged(NotOpened):
    """The order would cost more than the buyer expects. Nothing was sold.

    Attributes:
        amount: what it would cost, in minor units.
    """

    def __init__(self, amount: int) -> None:
        super().__init__(amount)
        self.amount = amount


class AmountTooLarge(NotOpened):
    """The order would cost more than an amount can hold. Nothing was sold."""


class OpenedLine(Struct, frozen=True):
    """A line of a new order, with the attributes of `OrderLine`."""

    sale_id: int
    quantity: int
    amount: int
    tax_rate: Decimal
    returned: ClassVar[int] = 0

    def priced(self) -> PricedLine:
        """Return the line in the form that `shop.orders.totals` takes."""
        return PricedLine(self.sale_id, self.quantity, self.amount // self.quantity)


class Opened(Struct, frozen=True):
    """A new order, with the attributes of `Order`. A model instance for each purchase of a batch
    would cost ten times as much CPU time.
    """

    pk: int
    sale_id: int | None
    quantity: int
    amount: int
    currency: str
    pay_before: datetime
    created: datetime
    details: Details
    lines: Sequence[OpenedLine]
    fee_lines: Sequence[Fee] = ()
    status: str = Order.Status.AWAITING_PAYMENT
    refunded: ClassVar[int] = 0


class Priced(NamedTuple):
    """A line with the price that the database has computed.

    Attributes:
        order: id of its order.
        amount: in minor units; -1 if it is too large.
        currency: of the amount.
        tax_rate: percent, included in the amount.
    """

    order: int
    amount: int
    currency: str
    tax_rate: Decimal


def open_orders(granted: Sequence[Granted], *, won: bool = False) -> list[Opened]:
    """Open an order per purchase or cart and write the outbox, in the reservations' transaction.

    An order of 0.00 is marked as paid at once, since nobody would ever pay it.

    Args:
        granted: the reservations; the lines of a cart follow each other.
        won: whether they are of winners, in sales whose draws are over.

    Returns:
        The order of each reservation.

    Raises:
        PurchasesRefused: for some of them the sale is not open, or the order would cost more than
            the buyer expects or than an amount can hold.
    """
    carts: list[tuple[list[Granted], Details]] = []
    rows: list[dict[str, Any]] = []
    for grant in granted:
        purchase = grant.purchase
        if grant.line == 0:
            stated = purchase.details if isinstance(purchase, DetailedPurchase) else {}
            carts.append(([], {**DEFAULTS, **stated}))
        cart, details = carts[-1]
        cart.append(grant)
        rows.append(
            {
                "cart": len(carts),
                "reservation": grant.reservation,
                "sale": purchase.scope,
                "buyer": purchase.buyer,
                "quantity": purchase.quantity,
                "hold": purchase.hold.total_seconds(),
                "details": details,
                "early_code": purchase.early_code if isinstance(purchase, DetailedPurchase) else "",
            }
        )
    with connection.wrap_database_errors:
        statement = OPEN_ORDERS.fixed or OPEN_ORDERS.for_rows(len(rows))
        values = {"rows": sql.rows(rows), "parent": hooks.parent() or None, "won": won}
        found = ClientCursor(connection.connection).execute(statement, values).fetchone()
    assert found is not None
    ids, reservations, amounts, currencies, tax_rates, now = found
    lines = map(Priced, ids or (), amounts or (), currencies or (), tax_rates or ())
    priced = dict(zip(reservations or (), lines, strict=True))
    orders: list[Opened] = []
    refused: dict[int, NotOpened] = {}
    charged: list[Opened] = []
    free: list[int] = []
    for cart, details in carts:
        order = _order_of(cart, details, priced, now)
        if not isinstance(order, Opened):
            refused[cart[0].reservation] = order
            continue
        orders += [order] * len(cart)
        if order.fee_lines:
            charged.append(order)
        if order.amount == 0:
            free.append(order.pk)
            for grant in cart:
                grant.final = True
    if refused:
        raise PurchasesRefused(refused)
    if charged:
        _charge(charged)
    if free:
        take(Step.PAY, free)
    transaction.on_commit(hooks.written)
    return orders


def _order_of(
    cart: Sequence[Granted], details: Details, priced: Mapping[int, Priced], now: datetime
) -> Opened | NotOpened:
    """Return the order of a purchase or cart, or the reason for which it must not be opened."""
    first = cart[0].purchase
    pk, currency = 0, ""
    units, amount, too_large = 0, 0, False
    lines: list[OpenedLine] = []
    for grant in cart:
        purchase, line = grant.purchase, priced.get(grant.reservation)
        # A cart whose sales have different currencies by now is refused as a whole.
        if line is None or (lines and line.currency != currency):
            return SaleClosed(purchase.scope)
        pk, currency = line.order, line.currency
        units += purchase.quantity
        amount += line.amount
        too_large = too_large or line.amount < 0
        lines.append(OpenedLine(purchase.scope, purchase.quantity, line.amount, line.tax_rate))
    fees = NO_FEES
    if fees_function(settings.FEES) is not None and not too_large:
        cost = total(Basket([opened.priced() for opened in lines], currency, details))
        amount, fees = cost.amount, cost.fees
    expected = first.expected_amount if isinstance(first, DetailedPurchase) else None
    if too_large or not 0 <= amount <= MAX_AMOUNT:
        return AmountTooLarge()
    if expected is not None and amount > expected:
        return PriceChanged(amount)
    return Opened(
        pk=pk,
        sale_id=first.scope if len(cart) == 1 else None,
        quantity=units,
        amount=amount,
        currency=currency,
        pay_before=now + first.hold,
        created=now,
        details=details,
        lines=lines,
        fee_lines=fees,
        status=Order.Status.AWAITING_PAYMENT if amount else Order.Status.PAID,
    )


def _charge(orders: Sequence[Opened]) -> None:
    """Add the fees to orders that this transaction has just written without them."""
    Order.objects.bulk_update(
        [
            Order(
                pk=order.pk,
                amount=order.amount,
                fee_amount=sum(fee.amount for fee in order.fee_lines),
            )
            for order in orders
        ],
        ["amount", "fee_amount"],
    )
    OrderFee.objects.bulk_create(
        OrderFee(order_id=order.pk, name=fee.name, amount=fee.amount, tax_rate=fee.tax_rate)
        for order in orders
        for fee in order.fee_lines
    )
