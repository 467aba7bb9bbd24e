"""Rows of an earlier version, with payments in every state, under the schema of today.

`before_payment_actions.sql` has the rows of a shop from before buyers took part in payments, as
`COPY` writes them; the payments had been cut off between any two calls of the provider.
`before_payment_actions.json` has what the provider knew, and the orders by their names.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, cast
from uuid import uuid4

import pytest
from django.apps import apps
from django.core.management.color import no_style
from django.db import DEFAULT_DB_ALIAS, connections
from django.db.migrations.executor import MigrationExecutor

from shop import payments
from shop.audit import examine
from shop.orders.models import Order, Status
from shop.payments.models import Payment
from shop.payments.provider import Intent, ProviderRefund, provider
from shop.tests.machine import PROVIDER, Provider
from shop.tests.money import come_to_rest

pytestmark = pytest.mark.django_db(transaction=True)

FILES = Path(__file__).with_name("before_payment_actions.sql")

BEFORE = [
    ("accounts", "0003_index_of_addresses"),
    ("inventory", "0001_initial"),
    ("shop", "0006_index_of_listed_sales"),
]
"""The last migrations of that version."""

TABLE = re.compile(r"(COPY (\w+) [^;]*);\n(.*?)\\\.\n", re.DOTALL)

OPEN = {
    "never asked for": Status.PAID,
    "created, answer lost": Status.PAID,
    "created, not captured": Status.PAID,
    "captured, answer lost": Status.PAID,
    "processing": Status.PAID,
    "expired while created": Status.EXPIRED,
    "expired while processing": Status.PAID,
    "cancelled while processing": Status.CANCELLED,
    "refund never asked for": Status.REFUNDED,
    "refund asked for, answer lost": Status.REFUNDED,
    "refund at work": Status.REFUNDED,
}
"""What orders with something pending become once the provider has been asked."""

OVER = {
    "awaiting payment": Status.AWAITING_PAYMENT,
    "declined": Status.AWAITING_PAYMENT,
    "paid": Status.PAID,
    "handed over": Status.FULFILLED,
    "cancelled": Status.CANCELLED,
    "refunded": Status.REFUNDED,
    "refund refused": Status.REFUND_PENDING,
    "in parts": Status.PAID,
    "cart": Status.PAID,
    "paid too late": Status.EXPIRED,
}
"""What the others stay."""


@pytest.fixture
def records() -> dict[str, Any]:
    """The provider's records, and the orders."""
    known: dict[str, Any] = json.loads(FILES.with_suffix(".json").read_text())
    return known


@pytest.fixture
def provider_of_then(records: dict[str, Any], settings: Any) -> Iterator[Provider]:
    """The provider, which still knows what it was asked."""
    settings.PAYMENT_PROVIDER = PROVIDER
    provider.cache_clear()
    fake = cast(Provider, provider())
    fake.intents = {intent["id"]: Intent(**intent) for intent in records["intents"]}
    for intent in fake.intents.values():
        if intent.status == "captured":
            fake.captures[intent.order].append(intent.amount)
    for key, answer in records["answers"].items():
        if "order" in answer:
            fake._answers[key] = Intent(**answer)
            continue
        refund = ProviderRefund(**answer)
        fake._answers[key] = fake.given[key] = refund
        if refund.id in records["working"]:
            fake.on_the_way[refund.id] = refund
        else:
            fake.refunds[fake.intents[refund.intent].order].append(refund.amount)
            fake.back[refund.intent] += refund.amount
    fake._numbers = iter(range(1_000, 2_000))  # type: ignore[assignment]
    yield fake
    provider.cache_clear()


@pytest.fixture
def orders(records: dict[str, Any], provider_of_then: Provider) -> Iterator[dict[str, Order]]:
    """The orders by their names, in another database that was migrated from then to today."""
    name, usual = f"upgrade_{uuid4().hex[:8]}", connections[DEFAULT_DB_ALIAS]
    with usual.cursor() as cursor:
        cursor.execute(f'CREATE DATABASE "{name}"')
    other = usual.copy()
    other.settings_dict["NAME"] = name
    other.settings_dict["OPTIONS"] = {**other.settings_dict["OPTIONS"], "pool": False}
    connections[DEFAULT_DB_ALIAS] = other
    try:
        migrate(BEFORE)
        load_rows(FILES.read_text())
        migrate(MigrationExecutor(other).loader.graph.leaf_nodes())
        yield {label: Order.objects.get(pk=pk) for label, pk in records["orders"].items()}
    finally:
        other.close()
        connections[DEFAULT_DB_ALIAS] = usual
        with usual.cursor() as cursor:
            cursor.execute(f'DROP DATABASE "{name}"')


def migrate(targets: Sequence[tuple[str, str]]) -> None:
    MigrationExecutor(connections[DEFAULT_DB_ALIAS]).migrate(targets)


def load_rows(text: str) -> None:
    """Load rows that `COPY` has written, and let ids go on after theirs."""
    connection = connections[DEFAULT_DB_ALIAS]
    with connection.cursor() as cursor:
        # Rows that refer to each other, in any order; and a ledger that triggers would refuse.
        cursor.execute("SET session_replication_role = replica")
        tables = set()
        for statement, table, rows in TABLE.findall(text):
            cursor.execute(f"DELETE FROM {table}")
            with cursor.copy(statement) as copy:
                copy.write(rows)
            tables.add(table)
        cursor.execute("RESET session_replication_role")
        models = [model for model in apps.get_models() if model._meta.db_table in tables]
        for statement in connection.ops.sequence_reset_sql(no_style(), models):
            cursor.execute(statement)


@pytest.mark.long
def test_payments_of_an_earlier_version_settle(
    orders: dict[str, Order], provider_of_then: Provider
) -> None:
    assert orders.keys() == OPEN.keys() | OVER.keys()
    assert {payment.state for payment in Payment.objects.all()} == {*Payment.State.values}
    assert examine().problems == []
    come_to_rest(provider_of_then)
    for order in orders.values():
        order.refresh_from_db()
    assert {name: order.status for name, order in orders.items()} == OPEN | OVER
    report = examine()
    assert (report.problems, report.unchecked) == ([], [])
    for order in orders.values():
        captured = provider_of_then.captures[order.pk]
        assert len(captured) <= 1
        assert sum(provider_of_then.refunds[order.pk]) <= sum(captured)


def test_order_of_an_earlier_version_is_paid_with_an_action(
    orders: dict[str, Order], provider_of_then: Provider
) -> None:
    provider_of_then.asks = True
    order = payments.pay(orders["declined"])
    assert payments.progress(order).state == "action"
    assert order.status == Status.AWAITING_PAYMENT
