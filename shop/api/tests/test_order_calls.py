"""The API of an order: who sees it, what may be done with it, and what is done once."""

from __future__ import annotations

from functools import partial
from typing import Any
from uuid import uuid4

import pytest

from inventory.models import Item, Reservation
from inventory.tests.helpers import at_once
from shop import orders
from shop.api.tests.answers import cny, refused
from shop.conftest import Buyer
from shop.orders.models import Order
from shop.tests.money import check
from shop.tests.provider import lost

pytestmark = pytest.mark.django_db

A_UUID = "0b5481f0-2c1e-4d5a-9f3b-6a7c8d9e0f12"
MISSING = 2**62
CHANGES = ["/payment", "/cancel", "/refund"]


def test_an_order_is_shown_to_its_buyer(ann, sale):
    placed = ann.buy(sale).json()
    assert ann.get(f"orders/{placed['id']}").json() == placed


@pytest.mark.parametrize("change", ["", *CHANGES])
def test_anothers_order_is_not_found_and_stays_as_it_is(change, ann, bob, sale):
    order = ann.order(sale)
    answer = bob.call("POST" if change else "GET", f"orders/{order}{change}")
    refused(answer, 404, "not_found")
    assert Order.objects.get(pk=order).status == "awaiting_payment"


@pytest.mark.parametrize("change", ["", *CHANGES])
@pytest.mark.parametrize("order", [0, MISSING, 2**63, 10**30])
def test_an_order_that_is_not_there_is_not_found(order, change, ann):
    answer = ann.call("POST" if change else "GET", f"orders/{order}{change}")
    refused(answer, 404, "not_found")


@pytest.mark.parametrize("change", ["", *CHANGES])
def test_an_order_is_not_shown_or_changed_without_a_token(change, ann, sale):
    order = ann.order(sale)
    answer = ann.call("POST" if change else "GET", f"orders/{order}{change}", authorization="")
    refused(answer, 401, "unauthorized")


def test_an_order_is_paid_and_refunded(ann, sale):
    order = ann.order(sale)
    assert ann.post(f"orders/{order}/payment").json()["status"] == "paid"
    assert Item.objects.get(pk=sale.item_id).available == 9
    assert ann.post(f"orders/{order}/refund").json()["status"] == "refunded"
    assert Item.objects.get(pk=sale.item_id).available == 10


def test_an_order_is_cancelled(ann, sale):
    order = ann.order(sale)
    assert ann.post(f"orders/{order}/cancel").json()["status"] == "cancelled"
    assert Item.objects.get(pk=sale.item_id).available == 10


@pytest.mark.parametrize(
    ("before", "change", "code"),
    [
        ([], "refund", "order_awaiting_payment"),
        (["payment"], "cancel", "order_paid"),
        (["cancel"], "payment", "order_cancelled"),
        (["cancel"], "refund", "order_cancelled"),
        (["payment", "refund"], "payment", "order_refunded"),
        (["payment", "refund"], "cancel", "order_refunded"),
    ],
)
def test_an_order_whose_state_does_not_allow_it_says_its_state(before, change, code, ann, sale):
    order = ann.order(sale)
    for step in before:
        assert ann.post(f"orders/{order}/{step}").status_code == 200
    stood = Order.objects.get(pk=order).status
    refused(ann.post(f"orders/{order}/{change}"), 409, code)
    assert Order.objects.get(pk=order).status == stood


@pytest.mark.parametrize("change", ["payment", "cancel"])
def test_doing_it_twice_is_doing_it_once(change, ann, sale):
    order = ann.order(sale)
    first, again = (ann.post(f"orders/{order}/{change}") for _ in range(2))
    assert (first.status_code, again.status_code) == (200, 200)
    assert first.json() == again.json()


def test_an_order_whose_time_to_pay_has_passed_cannot_be_paid(ann, sale):
    order = ann.order(sale)
    Reservation.objects.update(deadline="2020-01-01T00:00Z")
    refused(ann.post(f"orders/{order}/payment"), 409, "order_expired")
    assert Order.objects.get(pk=order).status == "awaiting_payment"
    assert orders.expire() == 1
    for change in ("payment", "cancel", "refund"):
        refused(ann.post(f"orders/{order}/{change}"), 409, "order_expired")


def parts(order: int, change: str, quantity: object, key: object = None) -> dict[str, Any]:
    """The arguments of a call that gives a part of an order back."""
    call = {"method": "POST", "path": f"orders/{order}/{change}", "body": {"quantity": quantity}}
    return call if key is None else {**call, "idempotency_key": str(key)}


def test_a_part_is_given_back_once_a_key_and_the_order_says_how_much(ann, sale, fake_provider):
    order, key = ann.order(sale, 2), uuid4()
    ann.post(f"orders/{order}/payment")
    first, again = (ann.call(**parts(order, "refund", 1, key)).json() for _ in range(2))
    assert first == again
    assert (first["status"], first["refunded"]) == ("paid", cny(999))
    line = {"sale": sale.pk, "quantity": 2, "returned": 1, "amount": cny(1998)}
    assert first["lines"] == [line]
    assert fake_provider.refunds[order] == [99_900]
    refused(ann.call(**parts(order, "refund", 2, key)), 422, "idempotency_key_reused")


def test_a_part_is_cancelled_before_the_rest_is_paid(ann, sale, fake_provider):
    order = ann.order(sale, 2)
    left = ann.call(**parts(order, "cancel", 1, uuid4())).json()
    assert (left["status"], left["amount"]) == ("awaiting_payment", cny(999))
    assert ann.post(f"orders/{order}/payment").json()["status"] == "paid"
    assert fake_provider.captures[order] == [99_900]


@pytest.mark.parametrize("change", ["cancel", "refund"])
@pytest.mark.parametrize(
    ("quantity", "key", "status", "code"),
    [
        (1, None, 400, "idempotency_key_missing"),
        (0, uuid4(), 422, "invalid_quantity"),
        (3, uuid4(), 422, "invalid_quantity"),
        ("1", uuid4(), 422, "invalid_quantity"),
        (True, uuid4(), 422, "invalid_quantity"),
    ],
)
def test_a_part_that_is_none_is_refused(change, quantity, key, status, code, ann, sale):
    order = ann.order(sale, 2)
    if change == "refund":
        ann.post(f"orders/{order}/payment")
    refused(ann.call(**parts(order, change, quantity, key)), status, code)
    assert ann.get(f"orders/{order}").json()["lines"][0]["returned"] == 0


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ({"sale": 1}, "invalid_quantity"),
        ({"quantiy": 1}, "invalid_request"),
        ({"quantity": None}, "invalid_quantity"),
        ({"all": False}, "invalid_request"),
        ({"all": 1}, "invalid_request"),
        ({"all": True, "quantity": 1}, "invalid_request"),
    ],
)
def test_a_misspelt_part_does_not_give_back_the_whole_order(body, code, ann, sale):
    order = ann.order(sale, 2)
    answer = ann.call("POST", f"orders/{order}/cancel", body, idempotency_key=A_UUID)
    refused(answer, 422, code)
    assert ann.get(f"orders/{order}").json()["lines"][0]["returned"] == 0


@pytest.mark.parametrize("body", [None, {}, {"all": True}])
@pytest.mark.parametrize("change", ["cancel", "refund"])
def test_all_and_an_empty_body_return_the_whole_order(change, body, ann, sale):
    order = ann.order(sale, 2)
    if change == "refund":
        ann.post(f"orders/{order}/payment")
    answer = ann.call("POST", f"orders/{order}/{change}", body)
    assert answer.json()["status"] == {"cancel": "cancelled", "refund": "refunded"}[change]


def test_a_body_without_its_length_does_not_give_back_the_whole_order(ann, sale):
    order = ann.order(sale, 2)
    answer = ann.post(f"orders/{order}/cancel", transfer_encoding="chunked")
    refused(answer, 400, "malformed")
    assert ann.get(f"orders/{order}").json()["status"] == "awaiting_payment"


def test_a_key_of_the_whole_order_must_be_one_too(ann, sale):
    order = ann.order(sale)
    answer = ann.post(f"orders/{order}/cancel", idempotency_key="1")
    refused(answer, 400, "idempotency_key_missing")


def test_a_payment_without_an_answer_is_unknown_and_the_same_call_finds_out(
    ann, sale, fake_provider
):
    order = ann.order(sale)
    fake_provider.after = lost("capture")
    answer = ann.post(f"orders/{order}/payment")
    refused(answer, 503, "outcome_unknown")
    assert int(answer["Retry-After"]) >= 1
    assert ann.post(f"orders/{order}/payment").json()["status"] == "paid"
    assert fake_provider.captures[order] == [99_900]


def test_a_payment_under_way_is_answered_with_the_order_as_it_stands(ann, sale, fake_provider):
    fake_provider.slow = True
    order = ann.order(sale)
    answer = ann.post(f"orders/{order}/payment")
    assert (answer.status_code, answer.json()["status"]) == (200, "awaiting_payment")


def test_a_declined_payment_is_said_and_another_attempt_is_possible(ann, sale, fake_provider):
    fake_provider.declines = True
    order = ann.order(sale)
    refused(ann.post(f"orders/{order}/payment"), 409, "payment_declined")
    fake_provider.declines = False
    assert ann.post(f"orders/{order}/payment").json()["status"] == "paid"


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("change", ["payment", "cancel", "refund", "refund a part"])
def test_a_call_sent_thirty_times_at_once_is_done_once_and_answered_alike(
    change, sale_of, fake_provider
):
    sale, ann = sale_of(), Buyer("ann")
    order, key = ann.order(sale, 2), str(uuid4())
    if change.startswith("refund"):
        ann.post(f"orders/{order}/payment")
    call = partial(ann.post, f"orders/{order}/{change}")
    if change == "refund a part":
        call = partial(ann.call, **parts(order, "refund", 1, key))
    answers = at_once([call] * 30)
    assert {answer.status_code for answer in answers} == {200}
    assert len({answer.content for answer in answers}) == 1
    back = {"payment": 0, "cancel": 0, "refund": 199_800, "refund a part": 99_900}[change]
    assert sum(fake_provider.refunds[order]) == back
    assert len(fake_provider.refunds[order]) == (back > 0)
    assert fake_provider.captures[order] == ([] if change == "cancel" else [199_800])
    check(sale, fake_provider)
