"""Details that a buyer states with an order, and fields that a team adds to its tables."""

from __future__ import annotations

import random
from datetime import date
from typing import Any
from uuid import uuid4

import msgspec
import pytest
from django.core import checks
from django.core.exceptions import ImproperlyConfigured
from django.db import models
from django.db.models.functions import Now
from django.forms import UUIDField, fields_for_model

from inventory.outcomes import Cart, CartTicket
from inventory.selling import batch
from inventory.tests.helpers import more_fields, rows
from inventory.tests.test_sql import PLANES, SPECIAL
from shop.accounts.models import User
from shop.catalogue.models import Sale
from shop.checkout import Wanted, buy, check_out
from shop.orders import creation, details
from shop.orders.creation import OPEN_ORDERS
from shop.orders.details import DetailedPurchase
from shop.orders.models import Order, OrderLine
from shop.pages.forms import CartForm
from shop.payments.models import WebhookEvent
from shop.refusals import Refusal

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def note(transactional_db: None, monkeypatch: pytest.MonkeyPatch):
    """Give orders two details, as a team does that names them in `Order.DETAILS`."""
    named = {name: f"details->>'{name}'" for name in ("name", "note")}
    with more_fields(
        Order,
        creation.OPEN_ORDERS,
        name=models.CharField(max_length=500, db_default=""),
        note=models.TextField("a note", blank=True, db_default=""),
    ):
        for name in Order.DETAILS:  # those that a team has already
            monkeypatch.delitem(creation.ORDER, name)
        for name, expression in named.items():
            monkeypatch.setitem(creation.ORDER, name, expression)
        monkeypatch.setattr(Order, "DETAILS", (*named,))
        monkeypatch.setattr(creation, "DEFAULTS", details.complete({}))
        monkeypatch.setattr(
            CartForm, "base_fields", {"key": UUIDField(), **fields_for_model(Order, named)}
        )
        yield


@pytest.mark.usefixtures("note")
def test_details_of_one_buyer_stay_out_of_anothers_order(sale_of):
    sale, draw = sale_of(stock=5000), random.Random(32)
    texts = SPECIAL + PLANES
    for _ in range(4):
        tickets = [_ticket(sale, draw, texts) for _ in range(256)]
        batch.sell(tickets)
        stated = {}
        for ticket in tickets:
            assert isinstance(ticket.answer, list)
            [grant] = ticket.answer
            assert isinstance(grant.purchase, DetailedPurchase)
            stated[grant.opened.pk] = grant.purchase.details
        written = {row["id"]: {"name": row["name"], "note": row["note"]} for row in rows(Order)}
        assert stated == {pk: written[pk] for pk in stated}


def _ticket(sale: Sale, draw: random.Random, texts: list[str]) -> CartTicket:
    user = User.objects.create(username=uuid4().hex, password="!")
    stated = {name: "".join(draw.choices(texts, k=12)) for name in ("name", "note")}
    purchase = DetailedPurchase(
        sale.item_id, sale.pk, user.pk, uuid4(), 1, 1, sale.hold, details=stated
    )
    return CartTicket(Cart((purchase,), creation.open_orders))


@pytest.mark.usefixtures("note")
def test_details_that_change_make_a_retry_another_purchase(sale, ann):
    key = uuid4()
    first = buy(sale.pk, ann.user.pk, key, 1, {"name": "Ann"})
    assert first.order.details == {"name": "Ann", "note": ""}
    again = buy(sale.pk, ann.user.pk, key, 1, {"name": "Ann"})
    assert (again.replayed, again.order.pk) == (True, first.order.pk)
    with pytest.raises(Refusal, match="idempotency_key_reused"):
        buy(sale.pk, ann.user.pk, key, 1, {"name": "Bob"})


@pytest.mark.usefixtures("note")
def test_details_are_kept_in_a_carts_order(sale, ann):
    bought = check_out(ann.user.pk, uuid4(), [Wanted(sale.pk, 1)], {"note": "ring twice"})
    order = Order.objects.get(pk=bought.order.pk)
    assert details.labelled(order) == [("A note", "ring twice")]


@pytest.mark.usefixtures("note")
def test_details_typed_before_a_cart_change_are_shown(sale, browser):
    line, typed = f"/cart/{sale.pk}/", {"name": "Ann Ander", "note": ""}
    units = {f"{sale.pk}-quantity": "1"}
    pages = [
        browser.post(line, {"quantity": "1", **typed}, follow=True),
        browser.post("/cart/", {**units, "update": "", **typed}, follow=True),
        browser.post("/cart/", {f"{sale.pk}-quantity": "2", **typed}, follow=True),
        browser.post(line, {"quantity": "", **typed}, follow=True),
    ]
    assert ['value="Ann Ander"' in page.text for page in pages] == [True] * 4
    assert "Ann Ander" not in browser.get("/cart/").text


def _member(field: Any) -> type[msgspec.Struct]:
    field.set_attributes_from_name("it")
    return msgspec.defstruct("Body", details.members([field]), kw_only=True)


@pytest.mark.parametrize(
    ("field", "body", "value"),
    [
        (models.TextField(), b'{"it": "a\\nb"}', "a\nb"),
        (models.TextField(blank=True), b"{}", ""),
        (models.CharField(max_length=3, blank=True, db_default="x"), b"{}", "x"),
        (models.CharField(max_length=3, default="x"), b"{}", "x"),
        (models.CharField(max_length=1, choices=[("s", "small")], blank=True), b'{"it": ""}', ""),
        (models.CharField(max_length=1, choices=[("s", "small")]), b'{"it": "s"}', "s"),
        (models.BooleanField(default=False), b"{}", False),
        (models.BooleanField(db_default=False), b"{}", False),
        (models.DateField(), b'{"it": "2026-11-24"}', date(2026, 11, 24)),
        (models.DateField(null=True, blank=True), b'{"it": null}', None),
    ],
)
def test_details_are_read_by_the_api_as_their_field_says(field, body, value):
    assert msgspec.json.decode(body, type=_member(field)).it == value  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("field", "body"),
    [
        (models.TextField(), b"{}"),
        (models.TextField(), b'{"it": ""}'),
        (models.TextField(), b'{"it": " \\n\\u3000"}'),
        (models.TextField(db_default=""), b"{}"),
        (models.CharField(max_length=3, db_default="x"), b"{}"),
        (models.CharField(max_length=1, choices=[("s", "small")], db_default="s"), b"{}"),
        (models.DateField(db_default=Now()), b"{}"),
        (models.TextField(), b'{"it": "a\\u0000b"}'),
        (models.CharField(max_length=3), b'{"it": "four"}'),
        (models.CharField(max_length=1, choices=[("s", "small")]), b'{"it": "x"}'),
        (models.BooleanField(), b'{"it": "yes"}'),
        (models.DateField(), b'{"it": "tomorrow"}'),
    ],
)
def test_details_that_the_field_refuses_are_refused_by_the_api(field, body):
    with pytest.raises(msgspec.ValidationError):
        msgspec.json.decode(body, type=_member(field))


@pytest.mark.parametrize("optional", [False, True])
def test_details_are_required_in_api_schema_and_form_alike(optional):
    field: Any = models.TextField(blank=optional, db_default="")
    member = _member(field)
    _, schemas = msgspec.json.schema_components([member])
    in_schema = "it" in schemas["Body"].get("required", [])
    in_form = field.formfield().required
    assert in_schema is in_form is not optional


def test_details_of_other_kinds_are_refused_at_the_start():
    with pytest.raises(ImproperlyConfigured, match="no text, date, or yes or no"):
        _member(models.FloatField())


def test_fields_added_to_orders_and_lines_get_their_defaults(sale, ann):
    of_order: dict[str, Any] = {
        "channel": models.CharField(max_length=10, default="web 100%"),
        "remark": models.TextField(),
        "reference": models.UUIDField(default=uuid4, unique=True),
        "touched": models.DateTimeField(auto_now=True),
    }
    of_line: dict[str, Any] = {
        "gift": models.BooleanField(default=False),
        "label": models.UUIDField(default=uuid4),
    }
    with (
        more_fields(Order, OPEN_ORDERS, **of_order),
        more_fields(OrderLine, OPEN_ORDERS, **of_line),
    ):
        order = ann.order(sale, 2)
        [written], [line] = rows(Order), rows(OrderLine)
    assert (written["channel"], written["remark"]) == ("web 100%", "")
    assert (written["status"], written["refunded"]) == ("awaiting_payment", 0)
    assert (line["order_id"], line["gift"], line["quantity"]) == (order, False, 2)
    assert all((written["reference"], written["touched"], line["label"]))


def test_fields_that_nothing_would_fill_in_are_told():
    field: Any = models.IntegerField(default=1)
    with more_fields(Order, number=field):
        assert checks.run_checks() == []
        field.default = models.NOT_PROVIDED
        field.__dict__.pop("_get_default", None)
        assert [check.id for check in checks.run_checks()] == ["shop.E001"]
    with more_fields(WebhookEvent, colour=models.CharField(max_length=5, default="red")):
        assert [check.id for check in checks.run_checks()] == ["shop.E002"]
