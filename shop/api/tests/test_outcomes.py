"""Refusals are true: who is refused has nothing, and who may have something is told so."""

from __future__ import annotations

from uuid import uuid4

import pytest
from django.db import OperationalError

from inventory import services
from inventory.outcomes import Busy, OutcomeUnknown
from shop.api import views
from shop.catalogue.models import Sale
from shop.catalogue.sale_cache import sale_cache
from shop.checkout.purchase import limiter

pytestmark = pytest.mark.django_db


def told(answer) -> tuple[int, str]:
    return answer.status_code, answer.json()["code"]


@pytest.mark.parametrize(
    ("error", "code"),
    [(Busy("no database"), "busy"), (OutcomeUnknown("the database is away"), "outcome_unknown")],
)
def test_a_cart_that_may_have_been_bought_is_not_told_as_refused(
    error, code, ann, sale, monkeypatch
):
    def fail(*_):
        raise error

    monkeypatch.setattr(services, "reserve_many", fail)
    cart = {"lines": [{"sale": sale.pk, "quantity": 1}]}
    answer = ann.call("POST", "orders", cart, idempotency_key=str(uuid4()))
    assert told(answer) == (503, code)


def test_a_database_that_fails_in_a_write_leaves_its_outcome_unknown(ann, sale, monkeypatch):
    order = ann.order(sale)

    def fail(*_):
        raise OperationalError

    monkeypatch.setattr(views.payments, "pay", fail)  # type: ignore[attr-defined]
    assert told(ann.post(f"orders/{order}/payment")) == (503, "outcome_unknown")
    monkeypatch.setattr(views, "order_document", fail)
    assert told(ann.get(f"orders/{order}")) == (503, "busy")


def test_a_key_in_a_closed_sale_is_never_answered_with_anothers_order(ann, bob, sale):
    key = uuid4()
    assert ann.buy(sale, key=key).status_code == 201
    Sale.objects.filter(pk=sale.pk).update(paused=True)
    sale_cache().refresh(sale.pk)
    assert told(bob.buy(sale, key=key)) == (403, "paused")


def test_what_a_buyer_has_from_one_sale_counts_against_no_other(ann, sale_of):
    first, second = sale_of(limit=2), sale_of(limit=2)
    assert ann.buy(first, 2).status_code == ann.buy(second, 2).status_code == 201
    assert told(ann.buy(second, 1)) == (409, "limit_reached")


def test_an_order_shows_what_was_paid_and_what_came_back(ann, sale):
    order = ann.order(sale, 2)
    ann.post(f"orders/{order}/payment")
    part = {"quantity": 1}
    shown = ann.call("POST", f"orders/{order}/refund", part, idempotency_key=str(uuid4())).json()
    assert (shown["amount"]["amount"], shown["refunded"]["amount"]) == (199_800, 99_900)


def test_who_asks_too_often_is_refused_and_has_bought_what_came_before(ann, bob, sale, settings):
    settings.SHOP_RATE_LIMIT = 1
    limiter.cache_clear()
    try:
        answers = [ann.buy(sale).status_code for _ in range(3)]
        assert answers == [201, 201, 429]
        assert bob.buy(sale).status_code == 201
        assert ann.get(f"sales/{sale.pk}").json()["available"] == 7
    finally:
        limiter.cache_clear()
