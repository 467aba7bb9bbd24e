"""Sales that open earlier for some: page, API, caches and the poll of open pages agree."""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest
from django.contrib.auth.models import Group
from django.core.exceptions import ValidationError
from django.db.models import F
from django.test import Client

from inventory.outcomes import Cart, CartTicket
from inventory.selling.queue import Seller
from shop.catalogue.models import Sale
from shop.catalogue.sale_cache import members, sale_cache, stock_cache
from shop.catalogue.sales import database_time
from shop.conftest import Buyer
from shop.orders import SaleClosed, open_orders
from shop.orders.details import DetailedPurchase
from shop.orders.models import Order
from shop.tests.catalogue import an_upcoming_sale
from shop.tests.openapi import refused

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def early() -> Sale:
    """A sale that opens in an hour, and a minute ago for members and for a code."""
    sale = an_upcoming_sale()
    sale.early_starts_at = database_time() - timedelta(minutes=1)
    sale.early_group = Group.objects.create(name="members")
    sale.early_code = "friends"
    sale.full_clean()
    sale.save()
    return sale


def join(buyer: Buyer, sale: Sale) -> None:
    assert sale.early_group is not None
    sale.early_group.user_set.add(buyer.user)


def order(buyer: Buyer, sale: Sale, *, cart: bool = False, **more: Any) -> Any:
    line = {"quantity": 1}
    path, body = f"sales/{sale.pk}/orders", {**line, **more}
    if cart:
        path, body = "orders", {"lines": [{"sale": sale.pk, **line}], **more}
    return buyer.call("POST", path, body, idempotency_key=str(uuid4()))


@pytest.mark.parametrize("cart", [False, True])
def test_early_sale_is_open_for_members_and_a_code_only(cart, early, ann, bob):
    refused(order(ann, early, cart=cart), 403, "not_started")
    refused(order(ann, early, cart=cart, early_code="Friends"), 403, "not_started")
    refused(order(ann, early, cart=cart, early_code=""), 403, "not_started")
    assert order(ann, early, cart=cart, early_code="friends").status_code == 201
    join(bob, early)
    assert order(bob, early, cart=cart).status_code == 201


@pytest.mark.parametrize("cart", [False, True])
@pytest.mark.parametrize("change", ["left the group", "later", "another code"])
def test_early_purchase_is_decided_by_the_database(change, cart, early, ann, bob):
    """Whatever a process has cached."""
    join(bob, early)
    assert order(bob, early, cart=cart).status_code == 201
    join(ann, early)
    assert early.early_group is not None
    assert members().has(early.early_group.pk, ann.user.pk)
    assert sale_cache().refresh(early.pk).closed(ann.user.pk) is None
    more = {}
    if change == "left the group":
        early.early_group.user_set.clear()
    elif change == "later":
        Sale.objects.update(early_starts_at=F("starts_at") - timedelta(minutes=1))
    else:
        Sale.objects.update(early_group=None, early_code="others")
        more = {"early_code": "friends"}
    answer = order(ann, early, cart=cart, **more)
    assert answer.status_code == 403
    assert answer.json()["code"] == "not_started"


def test_early_sale_that_is_paused_says_so(early, ann, bob):
    join(ann, early)
    join(bob, early)
    assert order(ann, early).status_code == 201  # now the sale is cached
    Sale.objects.filter(pk=early.pk).update(paused=True)
    refused(order(bob, early), 403, "paused")


def test_empty_code_opens_nothing_early(early, ann):
    Sale.objects.update(early_code="", early_group=None)
    refused(order(ann, early, early_code=""), 403, "not_started")


def test_early_code_with_nul_is_refused(early, ann):
    refused(order(ann, early, early_code="a\0b"), 422, "invalid_request")


def test_early_sale_is_shown_the_same_to_all_by_the_api(early, ann, client):
    join(ann, early)
    for asks in (ann.get, lambda path: client.get(f"/api/v1/{path}")):
        shown = asks(f"sales/{early.pk}").json()
        assert shown["status"] == "early"
        assert shown["early_starts_at"] < shown["server_time"] < shown["starts_at"]
    Sale.objects.update(paused=True)
    stock_cache.cache_clear()
    assert client.get(f"/api/v1/sales/{early.pk}").json()["status"] == "paused"


def test_early_sales_page_opens_for_members(early, ann, client):
    join(ann, early)
    page = f"/sales/{early.pk}/"
    assert 'data-status="not_started"' in client.get(page).content.decode()
    client.force_login(ann.user)
    shown = client.get(page).content.decode()
    assert 'data-status="open" data-early' in shown
    assert 'name="code"' not in shown
    client.post(page, {"key": uuid4(), "quantity": 1})
    assert Order.objects.get().buyer == ann.user


def test_early_sales_page_takes_a_code_for_its_form_and_the_cart(early, ann):
    browser = Client()
    browser.force_login(ann.user)
    page = f"/sales/{early.pk}/"
    assert 'name="code"' in browser.get(page).content.decode()
    assert 'data-status="not_started"' in browser.get(page, {"code": "wrong"}).content.decode()
    assert (
        'data-status="open" data-early' in browser.get(page, {"code": " friends"}).content.decode()
    )
    browser.post(f"/cart/{early.pk}/", {"quantity": 1})
    browser.post("/cart/", {"key": uuid4(), f"{early.pk}-quantity": 1})
    assert Order.objects.get().buyer == ann.user


def test_early_start_after_the_start_is_refused(early):
    early.early_starts_at = early.starts_at
    with pytest.raises(ValidationError, match="before the sale starts"):
        early.full_clean()


def test_early_buyer_is_not_refused_with_the_batch(early, ann, bob):
    """One whose membership was cached, but ended: the database refuses only them."""
    for buyer in (ann, bob):
        join(buyer, early)
        assert sale_cache().get(early.pk).closed(buyer.user.pk) is None
    early.early_group.user_set.remove(bob.user)
    purchases = [
        DetailedPurchase(early.item_id, early.pk, buyer.user.pk, uuid4(), 1, 1, early.hold)
        for buyer in (ann, bob)
    ]
    tickets = [CartTicket(Cart((purchase,), open_orders)) for purchase in purchases]
    Seller()._sell_or_split(tickets, None)
    assert [type(ticket.answer) for ticket in tickets] == [list, SaleClosed]
