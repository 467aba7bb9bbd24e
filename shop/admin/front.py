"""What matters now, for the admin's first page: running sales, alerts, pending work, money today.

Each part is shown to those who may see the rows that it is about.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, time
from typing import Any

from django.db.models import F, Q, QuerySet, Sum
from django.db.models.functions import Now
from django.urls import reverse
from django.utils.functional import Promise
from django.utils.timezone import localtime, make_aware
from django.utils.translation import gettext_lazy as _

from inventory.models import OutboxMessage, Reservation
from shop.audit.report import Alert
from shop.catalogue.models import Sale
from shop.catalogue.sales import database_time
from shop.money import plain
from shop.orders.models import Order
from shop.payments.models import Discrepancy, Payment, Refund
from shop.staff.models import SaleStop

MAX_SALES = 20
"""Running sales that are listed, those that end first."""

MAX_ALERTS = 10


@dataclass(frozen=True, slots=True)
class RunningSale:
    """A sale that is on now, in units.

    Attributes:
        sold: paid, or handed over.
        left: still to be had.
        unpaid: held for buyers who have not paid yet.
    """

    sale: Sale
    sold: int
    left: int
    unpaid: int


@dataclass(frozen=True, slots=True)
class Work:
    """Something that waits for somebody, with the list of it."""

    text: Promise
    count: int
    link: str


@dataclass(frozen=True, slots=True)
class Money:
    """Money of today in one currency, as text."""

    taken: str
    back: str
    kept: str


def figures(user: Any) -> dict[str, Any]:
    """Return what the first page shows to a user, by the names that its template uses."""
    shown: dict[str, Any] = {}
    if user.has_perm("shop.view_sale"):
        shown["sales"] = running_sales()
        shown["stops"] = SaleStop.objects.filter(finished=None).select_related("sale__product")
    if user.has_perm("shop.view_alert"):
        shown["alerts"] = Alert.objects.filter(closed=None)[:MAX_ALERTS]
    if user.has_perm("shop.view_order"):
        shown["work"] = [work for work in pending_work(user) if work.count]
        shown["money"] = money_today()
    return shown


def running_sales() -> list[RunningSale]:
    """Return the sales that are on now."""
    on = Sale.objects.filter(starts_at__lte=Now(), ends_at__gt=Now())
    sales = list(on.select_related("product", "item").order_by("ends_at", "pk")[:MAX_SALES])
    held = Reservation.objects.filter(
        item__in=[sale.item_id for sale in sales], state=Reservation.State.HELD
    )
    left = Sum(F("quantity") - F("returned"))
    units = held.values("item").annotate(left=left).values_list("item", "left").order_by()
    unpaid: Mapping[int, int] = dict(units)
    return [
        RunningSale(
            sale=sale,
            sold=sale.item.reserved - unpaid.get(sale.item_id, 0),
            left=sale.item.available,
            unpaid=unpaid.get(sale.item_id, 0),
        )
        for sale in sales
    ]


def pending_work(user: Any) -> list[Work]:
    """Return what waits for somebody of staff, or for too long."""
    lists: Sequence[tuple[Promise, QuerySet[Any], str]] = (
        (
            _("orders to hand over"),
            Order.objects.filter(status=Order.Status.PAID),
            "status__exact=paid",
        ),
        (
            _("refunds that failed"),
            Refund.objects.filter(state=Refund.State.FAILED),
            "state__exact=failed",
        ),
        (
            _("refunds on their way"),
            Refund.objects.filter(state=Refund.State.PENDING),
            "state__exact=pending",
        ),
        (
            _("discrepancies to decide on"),
            Discrepancy.objects.filter(closed=None),
            "closed__isempty=1",
        ),
        (
            _("messages that were given up"),
            OutboxMessage.objects.filter(done=None, dead__isnull=False),
            "state=dead",
        ),
    )
    return [
        Work(text, rows.count(), f"{_list_of(rows)}?{query}")
        for text, rows, query in lists
        if user.has_perm(f"{rows.model._meta.app_label}.view_{rows.model._meta.model_name}")
    ]


def money_today() -> list[Money]:
    """Return what was taken and given back since midnight in the shop's time zone, by currency."""
    midnight = _midnight(database_time())
    captured = Q(state=Payment.State.CAPTURED, settled__gte=midnight)
    taken = _sums(Payment.objects.filter(captured), "order__currency")
    back = _sums(
        Refund.objects.filter(state=Refund.State.DONE, settled__gte=midnight),
        "payment__order__currency",
    )
    found = []
    for currency in sorted({*taken, *back}):
        plus, minus = taken.get(currency, 0), back.get(currency, 0)
        found.append(
            Money(plain(plus, currency), plain(minus, currency), plain(plus - minus, currency))
        )
    return found


def _midnight(now: datetime) -> datetime:
    return make_aware(datetime.combine(localtime(now).date(), time()))


def _sums(rows: QuerySet[Any], currency: str) -> dict[str, int]:
    return dict(rows.values_list(currency).annotate(Sum("amount")).order_by())


def _list_of(rows: QuerySet[Any]) -> str:
    meta = rows.model._meta
    return reverse(f"admin:{meta.app_label}_{meta.model_name}_changelist")
