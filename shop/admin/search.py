"""Find orders by what a buyer, a warehouse or a payment provider names.

Each meaning of the term is looked up by its index, and only the meanings that exist become part of
the query: an address does not read all orders.
"""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.db.models import Q, QuerySet

from inventory.models import Reservation
from shop.accounts.models import User, normal
from shop.catalogue.models import Sale
from shop.orders.models import Order, OrderLine
from shop.payments.models import Discrepancy, Payment, Refund

MAX_KEY = 2**63 - 1

MAX_FOUND = 500
"""Rows of one meaning, such as sales of a product, that a search follows."""


def find_orders(orders: QuerySet[Order], term: str) -> QuerySet[Order]:
    """Return the orders that a term means.

    Args:
        orders: to choose from.
        term: number of an order or a sale, a buyer's name or e-mail address, part of a product's
            name, the provider's number of a payment, refund or dispute, or an idempotency key.
    """
    meanings = [
        *_numbers(term),
        _any("buyer", User.objects.filter(Q(email__iexact=term) | Q(username=normal(term)))),
        _any("pk", _payments(term), "order"),
        _any("pk", _lines(term), "order"),
        _of_product(term),
    ]
    found = [meaning for meaning in meanings if meaning is not None]
    if not found:
        return orders.none()
    wanted = Q()
    for meaning in found:
        wanted |= meaning
    return orders.filter(wanted)


def _any(field: str, rows: QuerySet[Any], key: str = "pk") -> Q | None:
    keys = list(rows.values_list(key, flat=True).distinct()[:MAX_FOUND])
    return Q(**{f"{field}__in": keys}) if keys else None


def _numbers(term: str) -> list[Q]:
    if not (term.isascii() and term.isdigit() and int(term) <= MAX_KEY):
        return []
    of_sale = OrderLine.objects.filter(sale=int(term)).values("order")
    return [Q(pk=int(term)), *([Q(pk__in=of_sale)] if of_sale.exists() else [])]


def _payments(term: str) -> QuerySet[Payment]:
    refunds = Refund.objects.filter(number=term).values_list("payment", flat=True)
    disputes = Discrepancy.objects.filter(number=term).values_list("payment", flat=True)
    others = [*refunds[:MAX_FOUND], *disputes[:MAX_FOUND]]
    return Payment.objects.filter(Q(intent=term) | Q(pk__in=others))


def _lines(term: str) -> QuerySet[OrderLine]:
    try:
        key = UUID(term)
    except ValueError:
        return OrderLine.objects.none()
    keys = Reservation.objects.filter(key=key).values_list("pk", flat=True)
    return OrderLine.objects.filter(pk__in=list(keys[:MAX_FOUND]))


def _of_product(term: str) -> Q | None:
    named = Q(product__name__icontains=term) | Q(product__texts__name__icontains=term)
    sales = list(
        Sale.objects.filter(named | Q(product__slug=term))
        .values_list("pk", flat=True)
        .distinct()[:MAX_FOUND]
    )
    if not sales:
        return None
    return Q(pk__in=OrderLine.objects.filter(sale__in=sales).values("order"))
