"""The admin: rows that only services may write are read-only."""

import re
from datetime import timedelta

import pytest
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import Permission
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

from inventory import outbox
from inventory.audit import audit
from inventory.models import Item, OutboxMessage, Reservation, StockMovement
from shop import payments
from shop.accounts.models import User
from shop.catalogue.models import Product, Sale
from shop.orders.models import Order
from shop.payments.models import Refund
from shop.tests.catalogue import a_buyer, a_sale, an_order

pytestmark = pytest.mark.django_db(transaction=True)

MODELS = (Product, Sale, Item, Reservation, Order, OutboxMessage, StockMovement)
WRITTEN_BY_SERVICES = (Reservation, Order, OutboxMessage, StockMovement)


def url(model, page, *args):
    meta = model._meta
    return reverse(f"admin:{meta.app_label}_{meta.model_name}_{page}", args=args)


def run(client, model, action, *rows):
    form = {"action": action, "_selected_action": [row.pk for row in rows]}
    return client.post(url(model, "changelist"), form, follow=True)


@pytest.fixture
def rows():
    """A row of every model."""
    order = an_order(a_sale(stock=3))
    line = order.lines.get()
    return {
        Product: line.sale.product,
        Sale: line.sale,
        Item: line.sale.item,
        Reservation: line.reservation,
        Order: order,
        OutboxMessage: OutboxMessage.objects.get(),
        StockMovement: StockMovement.objects.last(),
    }


@pytest.mark.parametrize("model", MODELS)
def test_every_table_is_listed_searched_and_shown(admin_client, rows, model):
    assert admin_client.get(url(model, "changelist")).status_code == 200
    assert admin_client.get(url(model, "changelist"), {"q": "1"}).status_code == 200
    assert admin_client.get(url(model, "change", rows[model].pk)).status_code == 200


@pytest.mark.parametrize("model", WRITTEN_BY_SERVICES)
def test_what_services_write_is_neither_added_nor_changed_nor_deleted(admin_client, rows, model):
    row = rows[model]
    before = type(row).objects.filter(pk=row.pk).values().get()
    for page, args in (("add", ()), ("change", (row.pk,)), ("delete", (row.pk,))):
        assert admin_client.post(url(model, page, *args), {"post": "yes"}).status_code == 403
    listed = admin_client.get(url(model, "changelist")).content.decode()
    assert "delete_selected" not in listed
    assert type(row).objects.filter(pk=row.pk).values().get() == before


def test_counters_of_an_item_cannot_be_typed_over(admin_client, rows):
    item = rows[Item]
    form = {
        "name": "Renamed",
        "available": 99,
        "total": 99,
        "reserved": 0,
        "fence": 0,
        "version": 0,
    }
    admin_client.post(url(Item, "change", item.pk), form)
    item.refresh_from_db()
    assert (item.name, item.available, item.reserved, item.total) == ("Renamed", 2, 1, 3)
    assert audit().balanced


def test_renaming_an_item_writes_its_name_and_nothing_else(admin_client, rows):
    """What the page loaded of the counters may be old when it is saved."""
    with CaptureQueriesContext(connection) as queries:
        admin_client.post(url(Item, "change", rows[Item].pk), {"name": "Renamed"})
    [update] = [each["sql"] for each in queries if each["sql"].startswith("UPDATE")]
    assert 'SET "name" =' in update
    assert "available" not in update


def test_an_item_is_not_deleted(admin_client, rows):
    assert admin_client.post(url(Item, "delete", rows[Item].pk), {"post": "yes"}).status_code == 403


def restock(client, item, units, total=None):
    form = {"units": units, "total": item.total if total is None else total}
    return client.post(url(Item, "restock", item.pk), form, follow=True)


@pytest.mark.parametrize("units", ["0", "-5", "many", "", "99999999999999999999"])
def test_a_restock_of_nonsense_adds_nothing(admin_client, rows, units):
    assert "errorlist" in restock(admin_client, rows[Item], units).content.decode()
    assert Item.objects.get(pk=rows[Item].pk).total == 3


def test_the_restock_action_leads_to_the_form_of_the_one_item(admin_client, rows):
    answer = run(admin_client, Item, "restock_selected", rows[Item])
    assert answer.redirect_chain[-1][0] == url(Item, "restock", rows[Item].pk)
    assert "2 of 3 units are available" in answer.content.decode()
    other = a_sale().item
    answer = run(admin_client, Item, "restock_selected", rows[Item], other)
    assert "Select one item" in answer.content.decode()


def a_clerk(client, *permissions):
    clerk = User.objects.create_user("clerk", is_staff=True)
    clerk.user_permissions.set(Permission.objects.filter(codename__in=permissions))
    client.force_login(clerk)


def test_who_may_only_look_does_not_restock_pause_or_retry(client, rows):
    a_clerk(client, "view_item", "view_sale", "view_outboxmessage")
    assert restock(client, rows[Item], 5).status_code == 403
    run(client, Sale, "pause", rows[Sale])
    run(client, OutboxMessage, "retry", rows[OutboxMessage])
    rows[Sale].refresh_from_db()
    assert not rows[Sale].paused
    assert Item.objects.get(pk=rows[Item].pk).total == 3


def test_who_may_only_look_gives_no_money_back(client):
    mine = payments.pay(an_order(a_sale()))
    payments.refund(mine)
    Refund.objects.update(state=Refund.State.FAILED)
    a_clerk(client, "view_refund")
    run(client, Refund, "retry", Refund.objects.get())
    assert Refund.objects.get().tries == 1, "the provider was not asked again"


def sale_form(**different):
    product = Product.objects.create(name="Kettle", slug="kettle", list_price=5000)
    start = timezone.now()
    return {
        "product": product.pk,
        "item": a_sale().item_id,
        "price": "25.00",
        "currency": "CNY",
        "limit": "2",
        "starts_at_0": start.date(),
        "starts_at_1": "00:00",
        "ends_at_1": "00:00",
        "ends_at_0": start.date() + timedelta(days=2),
        "hold": "00:15:00",
        **different,
    }


def test_a_sale_keeps_its_item(admin_client, rows):
    sale, form = rows[Sale], sale_form()
    admin_client.post(url(Sale, "change", sale.pk), form)
    changed = Sale.objects.get(pk=sale.pk)
    assert changed.price == 2500
    assert (changed.item_id, changed.product_id) == (sale.item_id, sale.product_id)


def test_a_message_that_waits_after_a_failure_is_tried_again_at_once(admin_client, rows):
    message = rows[OutboxMessage]
    assert outbox.deliver({}) == 0  # no handler: it failed, and is put off
    message.refresh_from_db()
    assert message.error
    later = message.not_before
    assert (
        "1 will be retried" in run(admin_client, OutboxMessage, "retry", message).content.decode()
    )
    message.refresh_from_db()
    assert message.not_before < later
    assert outbox.deliver({message.topic: lambda payload: None}) == 1


def test_the_admin_is_for_staff(client):
    client.force_login(a_buyer())
    assert re.search("login", client.get(reverse("admin:index")).headers["Location"])


def test_actions_are_in_the_log_that_nobody_can_change(admin_client, admin_user, rows):
    sale, message = rows[Sale], rows[OutboxMessage]
    run(admin_client, Sale, "pause", sale)
    run(admin_client, Sale, "pause", sale)  # changes nothing
    run(admin_client, Sale, "resume", sale)
    run(admin_client, OutboxMessage, "retry", message)
    logged = LogEntry.objects.order_by("pk").values_list("user", "object_id", "change_message")
    assert list(logged) == [
        (admin_user.pk, str(sale.pk), "Paused."),
        (admin_user.pk, str(sale.pk), "Resumed."),
        (admin_user.pk, str(message.pk), "Retried."),
    ]
    assert "Paused." in admin_client.get(url(LogEntry, "changelist")).content.decode()
    entry = LogEntry.objects.earliest("pk")
    assert admin_client.post(url(LogEntry, "delete", entry.pk), {"post": "yes"}).status_code == 403
    assert admin_client.post(url(LogEntry, "change", entry.pk), {}).status_code == 403
