"""Rights of buyers about their data: to get it, and to have it erased.

Erasing keeps the books: orders with their amounts, units and dates stay, without saying whose they
were. What identifies the buyer goes: the account's name and address, and what the buyer stated with
orders. What an operator wrote as a reason stays, because an order's history is never changed.
"""

from __future__ import annotations

from typing import Any, cast

from django.contrib.admin.models import LogEntry
from django.contrib.contenttypes.models import ContentType
from django.db import transaction
from django.db.models import Model, Q
from django.forms.models import model_to_dict
from django_otp.models import Device

from shop.accounts.models import PendingAddress, User
from shop.money import plain
from shop.orders.details import complete
from shop.orders.models import Order, Status
from shop.payments.models import Payment, Refund

OPEN = (Status.AWAITING_PAYMENT, Status.PAID, Status.REFUND_PENDING)
"""Statuses of orders for which the buyer must still be known: to be paid, delivered or refunded."""


class NotErasable(Exception):
    """A buyer cannot be erased.

    Attributes:
        orders: ids of orders that are not over yet; none if it is an account of staff.
    """

    def __init__(self, orders: list[int]) -> None:
        open_orders = ", ".join(map(str, orders))
        super().__init__(f"orders are open: {open_orders}" if orders else "an account of staff")
        self.orders = orders


@transaction.atomic
def erase(buyer: int) -> None:
    """Erase what identifies a buyer. Erasing again changes nothing.

    Args:
        buyer: id of the account.

    Raises:
        User.DoesNotExist: there is none.
        NotErasable: orders are not over yet, or it is an account of staff.
    """
    # Purchases refer to this row: one in progress is seen below. Its tokens are refused within a
    # minute (`shop.accounts.tokens`): an order of that minute needs another erasure.
    user = User.objects.select_for_update().get(pk=buyer)
    if user.is_staff or user.is_superuser:
        raise NotErasable([])
    orders = Order.objects.filter(buyer=user)
    if still_open := _still_open(user):
        raise NotErasable(still_open)
    user.username = f"erased-{user.pk}"
    user.email = user.first_name = user.last_name = ""
    user.last_login = None
    user.is_active = False
    user.set_unusable_password()
    user.save()
    PendingAddress.objects.filter(user=user).delete()
    if Order.DETAILS:
        orders.update(**complete({}))
    accounts = ContentType.objects.get_for_model(User)
    LogEntry.objects.filter(content_type=accounts, object_id=str(user.pk)).update(
        object_repr=user.username
    )


def _still_open(user: User) -> list[int]:
    on_its_way = Q(payments__state=Payment.State.PENDING) | Q(
        payments__refunds__state__in=[Refund.State.PENDING, Refund.State.FAILED]
    )
    orders = Order.objects.filter(Q(status__in=OPEN) | on_its_way, buyer=user)
    return list(orders.order_by("pk").values_list("pk", flat=True).distinct())


def collect(buyer: int) -> dict[str, Any]:
    """Return all that the shop's database knows of a buyer, for JSON.

    Args:
        buyer: id of the account.

    Returns:
        The account, the orders, and the rows of other tables that refer to the account. Names and
        reasons of operators are left out.

    Raises:
        User.DoesNotExist: there is none.
    """
    user = User.objects.get(pk=buyer)
    orders = Order.objects.filter(buyer=user).with_lines()
    orders = orders.prefetch_related("events", "payments__refunds").order_by("pk")
    fields = ("id", "username", "email", "first_name", "last_name", "date_joined", "last_login")
    return {
        "account": {name: getattr(user, name) for name in fields},
        "orders": [_order(order) for order in orders],
        "others": _others(user),
    }


def _order(order: Order) -> dict[str, Any]:
    def money(amount: int) -> str:
        return plain(amount, order.currency)

    return {
        "id": order.pk,
        "created": order.created,
        "status": order.status,
        "amount": money(order.amount),
        "refunded": money(order.refunded),
        **order.details,
        "lines": [
            {
                "product": line.sale.name,
                "quantity": line.quantity,
                "returned": line.returned,
                "amount": money(line.amount),
            }
            for line in order.lines.all()
        ],
        "events": [
            {"created": event.created, "kind": event.kind, "quantity": event.quantity}
            for event in order.events.all()
        ],
        "payments": [
            {
                "created": payment.created,
                "amount": money(payment.amount),
                "state": payment.state,
                "number": payment.intent,
                "refunds": [
                    {"created": refund.created, "amount": money(refund.amount)}
                    for refund in payment.refunds.all()
                ],
            }
            for payment in order.payments.all()
        ],
    }


def _others(user: User) -> dict[str, list[dict[str, Any]]]:
    """Return the rows of other tables that refer to an account, also of a team's own tables."""
    found = {}
    for relation in User._meta.related_objects:
        model = cast("type[Model]", relation.related_model)
        # A device of the second factor is a key, which any reader of it can use.
        secret = issubclass(model, Device)
        if model in (Order, LogEntry) or secret or relation.field.many_to_many:
            continue
        rows = model._default_manager.filter(**{relation.field.name: user})
        if values := [model_to_dict(row) for row in rows]:
            found[model._meta.label] = values
    return found
