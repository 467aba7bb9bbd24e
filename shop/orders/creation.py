"""Open orders in the transaction that reserves their units."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, ClassVar

from django.conf import settings
from django.contrib.auth.models import Group
from django.contrib.postgres.functions import TransactionNow
from django.db import connection, transaction
from django.db.models import Q
from msgspec import Struct

from inventory import outbox
from inventory.hooks import hooks
from inventory.outcomes import Granted, NotOpened, Purchase, PurchasesRefused
from inventory.sql import Insert, Statement
from shop.catalogue.models import Sale
from shop.orders.details import DetailedPurchase, Details, complete
from shop.orders.models import Order, OrderFee, OrderLine
from shop.orders.totals import (
    Basket,
    Fee,
    PricedLine,
    Total,
    check_amount,
    fees_function,
    total,
)
from shop.orders.transitions import Step, take

OPENED = "orders.opened"

# The columns that the statement computes or the buyer states. All other fields get their Django
# default.
ORDER = {
    **{name: name for name in ("id", "buyer", "amount", "currency", "pay_before")},
    "created": "now()",
    **{name: f"details->>'{name}'" for name in Order.DETAILS},
}
LINE = {
    **{name: name for name in ("reservation", "sale", "quantity", "amount", "tax_rate")},
    "order": "id",
}

DEFAULTS = complete({})
"""What an order gets where the buyer states nothing."""

# The sale's row decides again, in the transaction and by the database's clock: price, window, who
# may buy earlier, and pause are current, whatever a web process has cached. In a draw, only winners
# get orders, when the window is over. The order's id is drawn before the insert, because the line
# in the same statement needs it. An amount that no column could hold is -1: the purchase is
# refused, so that it is not kept.
OPEN_ORDERS = Statement(
    """
WITH opening AS (
    SELECT nextval('shop_order_id_seq') AS id, granted.reservation, granted.sale, granted.buyer,
           granted.quantity, granted.details,
           CASE WHEN sale.price <= 9223372036854775807 / granted.quantity
                THEN sale.price * granted.quantity ELSE -1 END AS amount,
           sale.currency, product.tax_rate,
           now() + make_interval(secs => granted.hold) AS pay_before, granted.ordinality AS position
    FROM ROWS FROM (json_to_recordset(%(rows)s) AS (
        reservation bigint, sale bigint, buyer bigint, quantity int, hold float8, details json,
        early_code text
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
), orders AS (
    {order}
), lines AS (
    {line}
), told AS (
    INSERT INTO inventory_outboxmessage (topic, payload)
    SELECT 'orders.opened', jsonb_strip_nulls(
        jsonb_build_object('orders', jsonb_agg(id), 'traceparent', %(parent)s::text)
    ) FROM opening
    HAVING count(*) > 0
)
SELECT array_agg(id), array_agg(reservation), array_agg(amount), array_agg(currency), now()
FROM opening
""",
    order=Insert(Order, ORDER, source="opening"),
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


class Opened(Struct, frozen=True):
    """A new order of one line, with the attributes of both: a model instance, one per
    purchase of a batch, would cost ten times as much.
    """

    pk: int
    sale_id: int
    quantity: int
    amount: int
    currency: str
    pay_before: datetime
    created: datetime
    details: Details
    fee_lines: Sequence[Fee] = ()
    status: str = Order.Status.AWAITING_PAYMENT
    refunded: ClassVar[int] = 0
    returned: ClassVar[int] = 0


def open_orders(granted: Sequence[Granted]) -> list[Opened]:
    """Open an order per reservation and write the outbox, in the reservations' transaction.

    An order of 0.00 is paid at once, since nobody would ever pay it.

    Raises:
        PurchasesRefused: for some the sale is not open, or they would cost more than their buyers
            expect, or than can be counted.
    """
    return _open(granted, won=False)


def open_won_orders(granted: Sequence[Granted]) -> list[Opened]:
    """Open an order per reservation as `open_orders` does, for winners of draws that are over."""
    return _open(granted, won=True)


def _open(granted: Sequence[Granted], *, won: bool) -> list[Opened]:
    rows: list[dict[str, Any]] = [
        {
            "reservation": grant.reservation,
            "sale": each.scope,
            "buyer": each.buyer,
            "quantity": each.quantity,
            "hold": each.hold.total_seconds(),
            "details": _details(each),
            "early_code": each.early_code if isinstance(each, DetailedPurchase) else "",
        }
        for grant in granted
        for each in (grant.purchase,)
    ]
    with connection.wrap_database_errors:
        found = OPEN_ORDERS.send(rows, {"parent": hooks.parent() or None, "won": won}).fetchone()
    assert found is not None
    ids, reservations, amounts, currencies, now = found
    values = zip(ids or (), amounts or (), currencies or (), strict=True)
    opened = dict(zip(reservations or (), values, strict=True))
    has_fees = fees_function(settings.FEES) is not None
    refused: dict[int, NotOpened] = {}
    free: list[int] = []
    charged: dict[int, Total] = {}
    orders: list[Opened] = []
    for grant, row in zip(granted, rows, strict=True):
        each = grant.purchase
        if grant.reservation not in opened:
            refused[grant.reservation] = SaleClosed(each.scope)
            continue
        pk, amount, currency = opened[grant.reservation]
        fees: Sequence[Fee] = ()
        if has_fees and amount >= 0:
            line = PricedLine(each.scope, each.quantity, amount // each.quantity)
            cost = total(Basket([line], currency, row["details"]))
            if cost.fees:
                charged[pk] = cost
                amount, fees = cost.amount, cost.fees
        expected = each.expected_amount if isinstance(each, DetailedPurchase) else None
        if error := check_amount(amount, expected):
            refused[grant.reservation] = error
            continue
        status = Order.Status.AWAITING_PAYMENT
        if amount == 0:
            status = Order.Status.PAID
            grant.final = True
            free.append(pk)
        order = Opened(
            pk=pk,
            sale_id=each.scope,
            quantity=each.quantity,
            amount=amount,
            currency=currency,
            pay_before=now + each.hold,
            created=now,
            details=row["details"],
            fee_lines=fees,
            status=status,
        )
        orders.append(order)
    if refused:
        raise PurchasesRefused(refused)
    _charge(charged)
    take(Step.PAY, free)
    transaction.on_commit(hooks.written)
    return orders


def _charge(totals: Mapping[int, Total]) -> None:
    """Add fees to orders that have just been written without them."""
    if not totals:
        return
    Order.objects.bulk_update(
        [
            Order(pk=pk, amount=cost.amount, fee_amount=cost.fee_amount)
            for pk, cost in totals.items()
        ],
        ["amount", "fee_amount"],
    )
    OrderFee.objects.bulk_create(
        OrderFee(order_id=pk, name=fee.name, amount=fee.amount, tax_rate=fee.tax_rate)
        for pk, cost in totals.items()
        for fee in cost.fees
    )


def _details(purchase: Purchase) -> Details:
    stated = purchase.details if isinstance(purchase, DetailedPurchase) else {}
    return {**DEFAULTS, **stated}


def open_cart(granted: Sequence[Granted]) -> list[int]:
    """Open one order for reservations of one buyer, in their transaction.

    Not the hot path, so it uses the ORM. As for a single purchase, the sales' rows decide again,
    by the database's clock. The reservations may not be written yet.

    Returns:
        The order's id, once per line.

    Raises:
        SaleClosed: one of the sales is not open, or has another currency than the first.
        PriceChanged: it would cost more than the buyer expects.
        AmountTooLarge: it would cost more than can be counted.
    """
    purchases = [grant.purchase for grant in granted]
    first = purchases[0]
    # Not by a join, which would read the sale once for each member of the group.
    early = Q(early_group__in=Group.objects.filter(user=first.buyer))
    if isinstance(first, DetailedPurchase) and first.early_code:
        early |= Q(early_code=first.early_code)
    found = Sale.objects.filter(
        Q(starts_at__lte=TransactionNow()) | (Q(early_starts_at__lte=TransactionNow()) & early),
        pk__in=[purchase.scope for purchase in purchases],
        ends_at__gt=TransactionNow(),
        paused=False,
        kind=Sale.Kind.FIRST_COME,
    )
    sales = found.select_related("product").in_bulk()
    if closed := {purchase.scope for purchase in purchases} - sales.keys():
        raise SaleClosed(min(closed))
    currencies = {sale.currency for sale in sales.values()}
    if len(currencies) > 1:
        raise SaleClosed(min(sales))
    lines = [
        PricedLine(purchase.scope, purchase.quantity, sales[purchase.scope].price)
        for purchase in purchases
    ]
    currency, details = currencies.pop(), _details(first)
    cost = total(Basket(lines, currency, details))
    expected = first.expected_amount if isinstance(first, DetailedPurchase) else None
    if error := check_amount(cost.amount, expected):
        raise error
    order = Order.objects.create(
        buyer_id=first.buyer,
        amount=cost.units,
        currency=currency,
        # The transaction's time, as for the reservations' deadlines.
        created=TransactionNow(),
        pay_before=TransactionNow() + first.hold,
        **details,
    )
    OrderLine.objects.bulk_create(
        OrderLine(
            reservation_id=grant.reservation,
            order=order,
            sale_id=grant.purchase.scope,
            quantity=line.quantity,
            amount=line.amount,
            tax_rate=sales[line.sale].product.tax_rate,
        )
        for grant, line in zip(granted, lines, strict=True)
    )
    if cost.fees:
        _charge({order.pk: cost})
    outbox.emit(OPENED, {"orders": [order.pk]})
    if cost.amount == 0:
        take(Step.PAY, [order.pk])
        for grant in granted:
            grant.final = True
    return [order.pk] * len(granted)
