"""System checks for fields that a team adds to the shop's models, and for a deployment's settings.

Orders and webhook events are written in SQL. A field that those statements cannot fill would
make every sale fail.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from django.conf import settings
from django.core.checks import CheckMessage, Error, Tags, register

from inventory.sql import made_by_django, without_value
from shop.operating import safe_start
from shop.orders.creation import LINE, ORDER
from shop.orders.models import Order, OrderLine
from shop.payments.models import WebhookEvent
from shop.payments.provider import provider

OPENED = {Order: ORDER, OrderLine: LINE}

WRITTEN_IN_SQL = {WebhookEvent: ("id", "type")}
"""Models whose rows are written in SQL that names these fields only."""


@register(Tags.models)
def check_columns(**_: Any) -> Iterator[CheckMessage]:
    """Find added fields that would get no value."""
    for model, given in OPENED.items():
        for field in without_value(model, given):
            yield Error(
                f"{model.__name__}.{field} has no default, so no order can be opened.",
                hint="Add a default, null=True, or a value in shop/orders/creation.py.",
                obj=model,
                id="shop.E001",
            )
    for other, named in WRITTEN_IN_SQL.items():
        for field in made_by_django(other, named):
            yield Error(
                f"{other.__name__}.{field} gets no value: rows of this model are written in SQL.",
                hint="Give the field a db_default instead of a default.",
                obj=other,
                id="shop.E002",
            )


@register()
def check_provider(**_: Any) -> Iterator[CheckMessage]:
    """Find a payment provider that cannot be had, before the first buyer pays."""
    if settings.PAYMENT_PROVIDER:
        try:
            provider()
        except (ImportError, TypeError) as error:
            yield Error(f"PAYMENT_PROVIDER: {error}", id="shop.E004")


@register(Tags.security, deploy=True)
def check_start(**_: Any) -> Iterator[CheckMessage]:
    """Find what would keep production from starting."""
    for problem in safe_start.problems():
        yield Error(problem, id="shop.E003")
