"""What ``manage.py check`` says about fields that a team has added to the shop's models.

Orders are opened by a statement over arrays, and two other tables are written in SQL as well. What
these cannot fill in, every sale would fail for.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from django.core.checks import CheckMessage, Error, Tags, register

from inventory.inserts import made_by_django, without_value
from shop.background.models import Run
from shop.orders.creation import LINE, ORDER
from shop.orders.models import Order, OrderLine
from shop.payments.webhook_models import WebhookEvent

OPENED = {Order: ORDER, OrderLine: LINE}

WRITTEN_IN_SQL = {
    Run: ("task", "runs", "failures", "last", "seconds", "result", "last_failure", "error"),
    WebhookEvent: ("id", "type"),
}
"""Models whose rows are written by statements that name these fields and no others."""


@register(Tags.models)
def check_columns(**_: Any) -> Iterator[CheckMessage]:
    """Find fields that would have no value."""
    for model, given in OPENED.items():
        for field in without_value(model, given):
            yield Error(
                f"{model.__name__}.{field} has no default, so that no order can be opened.",
                hint="Give it a default, or null=True, or a value in shop/orders/creation.py.",
                obj=model,
                id="shop.E001",
            )
    for other, named in WRITTEN_IN_SQL.items():
        for field in made_by_django(other, named):
            yield Error(
                f"{other.__name__}.{field} gets no value: these rows are written in SQL.",
                hint="Give the field a db_default instead of a default.",
                obj=other,
                id="shop.E002",
            )
