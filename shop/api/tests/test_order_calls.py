"""The API of an order: who sees it, what may be done with it, and what is done once."""

from __future__ import annotations

from functools import partial
from typing import Any
from uuid import uuid4

import pytest

from inventory.tests.helpers import at_once
from shop.api.tests.answers import refused
from shop.conftest import Buyer
from shop.tests.money import check

pytestmark = pytest.mark.django_db

A_UUID = "0b5481f0-2c1e-4d5a-9f3b-6a7c8d9e0f12"
MISSING = 2**62
CHANGES = ["/payment", "/cancel", "/refund"]


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


def parts(order: int, change: str, quantity: object, key: object = None) -> dict[str, Any]:
    """The arguments of a call that gives a part of an order back."""
    call = {"method": "POST", "path": f"orders/{order}/{change}", "body": {"quantity": quantity}}
    return call if key is None else {**call, "idempotency_key": str(key)}


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
