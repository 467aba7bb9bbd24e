"""One order for all the lines of a cart. Not the hot path, so it is written for reading."""

from __future__ import annotations

from collections.abc import Sequence

from django.contrib.postgres.functions import TransactionNow

from inventory import outbox
from inventory.outcomes import Declined, Granted
from shop.catalogue.models import Sale
from shop.orders.creation import OPENED
from shop.orders.models import Order, OrderLine


def open_cart(granted: Sequence[Granted]) -> list[Order]:
    """Open one order for reservations of one buyer, in their transaction.

    As for a single purchase, the sales' rows decide once more by the database's clock.

    Returns:
        The order, once for each of its lines.

    Raises:
        Declined: some of the sales are not open, or their currencies differ.
    """
    wishes = [grant.purchase for grant in granted]
    sales = Sale.objects.filter(
        pk__in=[wish.scope for wish in wishes],
        starts_at__lte=TransactionNow(),
        ends_at__gt=TransactionNow(),
        paused=False,
    ).in_bulk()
    if closed := {wish.scope for wish in wishes} - sales.keys():
        raise Declined(closed)
    currencies = {sale.currency for sale in sales.values()}
    if len(currencies) > 1:
        raise Declined(sales.keys())
    amounts = [sales[wish.scope].price * wish.quantity for wish in wishes]
    order = Order.objects.create(
        buyer_id=wishes[0].buyer,
        amount=sum(amounts),
        currency=currencies.pop(),
        # The transaction's time, as for the reservations' own deadlines.
        created=TransactionNow(),
        pay_before=TransactionNow() + wishes[0].hold,
    )
    OrderLine.objects.bulk_create(
        OrderLine(
            reservation_id=grant.reservation,
            order=order,
            sale_id=grant.purchase.scope,
            quantity=grant.purchase.quantity,
            amount=amount,
        )
        for grant, amount in zip(granted, amounts, strict=True)
    )
    outbox.emit(OPENED, {"orders": [order.pk]})
    return [Order.objects.with_lines().get(pk=order.pk)] * len(granted)
