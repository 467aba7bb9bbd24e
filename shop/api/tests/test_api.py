"""The API: every answer of its table, and bad input of every kind, which writes nothing."""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from functools import partial
from typing import Any
from uuid import uuid4

import pytest
from django.db import connection

from inventory.models import BuyerQuota, Item, OutboxMessage, Reservation, StockMovement
from inventory.tests.helpers import at_once
from shop.accounts import tokens
from shop.catalogue.sale_cache import sale_cache
from shop.conftest import Buyer
from shop.orders.models import Order
from shop.tests.messages import title
from shop.tests.money import check
from shop.tests.provider import lost

A_UUID = "0b5481f0-2c1e-4d5a-9f3b-6a7c8d9e0f12"

pytestmark = pytest.mark.django_db

MISSING = 2**62


def refused(answer, status: int, code: str) -> dict[str, object]:
    """The problem that an answer is, after checking that it is a whole one."""
    assert (answer.status_code, answer["Content-Type"]) == (status, "application/problem+json")
    document: dict[str, object] = answer.json()
    assert (document["code"], document["status"]) == (code, status)
    assert document["title"] == title(code)
    assert document["type"]
    return document


def cny(yuan: float) -> dict[str, object]:
    """An amount as the API writes it."""
    return {"amount": round(yuan * 100), "currency": "CNY"}


def written() -> list[int]:
    return [
        table.objects.count()
        for table in (Reservation, Order, BuyerQuota, StockMovement, OutboxMessage)
    ]


@pytest.fixture
def writes_nothing():
    """Fail a test that wrote something, in spite of what it asked for."""
    yield
    assert written() == [0, 0, 0, StockMovement.objects.filter(reason="restock").count(), 0]


# --- buying ------------------------------------------------------------------------------------


def test_a_purchase_is_answered_with_its_order(ann, sale):
    answer = ann.buy(sale, 2)
    assert (answer.status_code, answer["Content-Type"]) == (201, "application/json")
    document = answer.json()
    order = Order.objects.get(buyer=ann.user)
    created = datetime.fromisoformat(document.pop("created"))
    pay_before = datetime.fromisoformat(document.pop("pay_before"))
    assert document == {
        "id": order.pk,
        "sale": sale.pk,
        "quantity": 2,
        "amount": cny(1998),
        "status": "awaiting_payment",
        "refunded": cny(0),
        "lines": [{"sale": sale.pk, "quantity": 2, "returned": 0, "amount": cny(1998)}],
    }
    assert pay_before - created == timedelta(minutes=15)
    assert Item.objects.get(pk=sale.item_id).available == 8


def test_the_same_key_is_answered_with_the_same_order(ann, sale):
    key = uuid4()
    first, again = ann.buy(sale, key=key), ann.buy(sale, key=key)
    assert (first.status_code, again.status_code) == (201, 200)
    assert first.json() == again.json()
    assert Order.objects.count() == 1


def test_a_key_may_be_written_in_capitals(ann, sale):
    key = uuid4()
    assert ann.buy(sale, key=key).status_code == 201
    assert ann.buy(sale, key=str(key).upper()).status_code == 200


def test_the_same_key_with_another_quantity_is_refused(ann, sale):
    key = uuid4()
    ann.buy(sale, 1, key=key)
    refused(ann.buy(sale, 2, key=key), 422, "idempotency_key_reused")
    assert Item.objects.get(pk=sale.item_id).available == 9


def test_the_same_key_in_another_sale_is_refused(ann, sale, sale_of):
    key = uuid4()
    ann.buy(sale, key=key)
    refused(ann.buy(sale_of(), key=key), 422, "idempotency_key_reused")
    assert Order.objects.count() == 1


def test_another_buyer_may_have_the_same_key(ann, bob, sale):
    key = uuid4()
    assert ann.buy(sale, key=key).status_code == 201
    assert bob.buy(sale, key=key).status_code == 201


def test_sold_out_says_what_is_left(ann, bob, sale_of):
    sale = sale_of(1)
    assert refused(ann.buy(sale, 2), 409, "sold_out")["available"] == 1
    assert ann.buy(sale, 1).status_code == 201
    assert refused(bob.buy(sale, 1), 409, "sold_out")["available"] == 0


def test_the_limit_says_what_is_left_of_it(ann, sale):
    assert refused(ann.buy(sale, 3), 409, "limit_reached")["left"] == 2
    ann.order(sale, 1)
    assert refused(ann.buy(sale, 2), 409, "limit_reached")["left"] == 1
    ann.order(sale, 1)
    assert refused(ann.buy(sale, 1), 409, "limit_reached")["left"] == 0


def test_a_key_is_replayed_after_the_sale_sold_out(ann, bob, sale_of):
    sale, key = sale_of(1), uuid4()
    first = ann.buy(sale, key=key)
    refused(bob.buy(sale), 409, "sold_out")
    again = ann.buy(sale, key=key)
    assert (again.status_code, again.json()) == (200, first.json())


@pytest.mark.usefixtures("writes_nothing")
def test_a_sale_that_has_not_begun_sells_nothing(ann, sale_of):
    refused(ann.buy(sale_of(starts_in=timedelta(minutes=1))), 403, "not_started")


@pytest.mark.usefixtures("writes_nothing")
def test_a_sale_that_is_over_sells_nothing(ann, sale_of):
    over = sale_of(starts_in=timedelta(minutes=-2), lasts=timedelta(minutes=1))
    refused(ann.buy(over), 410, "ended")


@pytest.mark.usefixtures("writes_nothing")
def test_a_paused_sale_sells_nothing(ann, sale):
    sale.paused = True
    sale.save()
    refused(ann.buy(sale), 403, "paused")


@pytest.mark.usefixtures("writes_nothing")
@pytest.mark.parametrize(
    ("change", "status", "code"),
    [
        ("paused = true", 403, "paused"),
        ("ends_at = starts_at + interval '1 microsecond'", 410, "ended"),
        ("starts_at = now() + interval '1 hour'", 403, "not_started"),
    ],
)
def test_a_process_that_remembers_the_sale_as_open_sells_nothing_once_it_is_not(
    change, status, code, ann, sale_of
):
    """The sale's row decides in the purchase's transaction, by the database's clock."""
    sale = sale_of(starts_in=timedelta(minutes=-1))
    sale_cache().refresh(sale.pk)
    with connection.cursor() as cursor:
        cursor.execute(f"UPDATE shop_sale SET {change} WHERE id = %s", [sale.pk])
    assert sale_cache().get(sale.pk).closed() is None, "it is still remembered as open"
    refused(ann.buy(sale), status, code)


@pytest.mark.parametrize("change", ["paused = true", "ends_at = starts_at + interval '1 us'"])
def test_a_key_is_replayed_after_the_sale_was_closed(change, ann, sale_of):
    sale, key = sale_of(starts_in=timedelta(minutes=-1)), uuid4()
    first = ann.buy(sale, key=key)
    with connection.cursor() as cursor:
        cursor.execute(f"UPDATE shop_sale SET {change} WHERE id = %s", [sale.pk])
    assert sale_cache().refresh(sale.pk).closed() is not None
    again = ann.buy(sale, key=key)
    assert (again.status_code, again.json()) == (200, first.json())
    refused(ann.buy(sale, 2, key=key), 422, "idempotency_key_reused")


def test_the_price_is_the_one_of_the_moment_of_the_purchase(ann, sale):
    sale_cache().refresh(sale.pk)
    type(sale).objects.filter(pk=sale.pk).update(price=1250)
    assert ann.buy(sale, 2).json()["amount"] == cny(25)
    assert ann.get(f"sales/{sale.pk}").json()["price"] == cny(12.5)


# --- bad input ---------------------------------------------------------------------------------

QUANTITIES = [
    0, -1, 1001, 2**31, 2**63, -(2**63), 10**400, True, False, None, 1.5,
    "1", "", [], [1], {}, {"quantity": 1},
]  # fmt: skip


@pytest.mark.usefixtures("writes_nothing")
@pytest.mark.parametrize("quantity", QUANTITIES, ids=lambda value: repr(value)[:20])
def test_a_quantity_that_is_none_is_refused(quantity, ann, sale):
    refused(ann.buy(sale, quantity), 422, "invalid_quantity")


def test_a_whole_number_may_be_written_with_a_point(ann, sale):
    """As JSON Schema, in which the API is described, has it."""
    assert ann.buy(sale, 2.0).json()["quantity"] == 2


@pytest.mark.usefixtures("writes_nothing")
@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        (b"", 422, "invalid_quantity"),
        (b"{}", 422, "invalid_quantity"),
        (b'{"Quantity": 1}', 422, "invalid_request"),
        (b'{"quantity": 1, "more": 1}', 422, "invalid_request"),
        (b'{"quantity": 1e400}', 422, "invalid_quantity"),
        (b'{"quantity": NaN}', 400, "malformed"),
        (b'{"quantity": Infinity}', 400, "malformed"),
        (b"[]", 422, "invalid_request"),
        (b'[{"quantity": 1}]', 422, "invalid_request"),
        (b"1", 422, "invalid_request"),
        (b'"quantity"', 422, "invalid_request"),
        (b"null", 422, "invalid_request"),
        (b"{", 400, "malformed"),
        (b"quantity=1", 400, "malformed"),
        (b'{"quantity": 1}}', 400, "malformed"),
        (b'{"quantity": 01}', 400, "malformed"),
        (b"\0", 400, "malformed"),
        (b'{"quantity": "\xff\xfe"}', 400, "malformed"),
        (b"\xff\xff\xff\xff", 400, "malformed"),
        (b'{"quantity": ' + b"9" * 9000 + b"}", 400, "malformed"),
        (b"[" * 16_000, 400, "malformed"),
        (b'{"a":' * 3000 + b"1" + b"}" * 3000, 413, "too_large"),
        (b'{"quantity": 1, "more": "' + b"x" * 20_000 + b'"}', 413, "too_large"),
    ],
    ids=lambda value: repr(value)[:24],
)
def test_a_body_that_is_no_order_is_refused(body, status, code, ann, sale):
    answer = ann.call("POST", f"sales/{sale.pk}/orders", body, idempotency_key=str(uuid4()))
    refused(answer, status, code)


@pytest.mark.usefixtures("writes_nothing")
@pytest.mark.parametrize(
    "key",
    ["", " ", "1", "null", "x" * 36, "é" * 36, A_UUID + "0", A_UUID.replace("-", ""), "0" * 10_000,
     "{" + A_UUID + "}", f"urn:uuid:{A_UUID}", A_UUID.replace("-", "") + "----", "0_" + A_UUID[2:]],
    ids=lambda value: value[:12],
)  # fmt: skip
def test_a_key_that_is_no_uuid_is_refused(key, ann, sale):
    body = {"quantity": 1}
    answer = ann.call("POST", f"sales/{sale.pk}/orders", body, idempotency_key=key)
    refused(answer, 400, "idempotency_key_missing")


@pytest.mark.usefixtures("writes_nothing")
def test_a_purchase_without_a_key_is_refused(ann, sale):
    answer = ann.call("POST", f"sales/{sale.pk}/orders", {"quantity": 1})
    refused(answer, 400, "idempotency_key_missing")


@pytest.mark.usefixtures("writes_nothing")
@pytest.mark.parametrize(
    "path",
    [f"sales/{n}/orders" for n in (0, MISSING, 2**63 - 1, 2**63, 2**64, 10**30)],
)
def test_there_must_be_such_a_sale(path, ann):
    answer = ann.call("POST", path, {"quantity": 1}, idempotency_key=str(uuid4()))
    refused(answer, 404, "not_found")


TOKENS = {
    "none": "",
    "no scheme": tokens.issue(1),
    "basic": "Basic dXNlcjpwYXNzd29yZA==",
    "no token": "Bearer",
    "empty": "Bearer ",
    "nonsense": "Bearer nonsense",
    "unsigned": "Bearer 1.9999999999",
    "wrong signature": "Bearer 1.9999999999~AAAA",
    "of another": "Bearer " + tokens.issue(1).replace("1.", "2.", 1),
    "ended": "Bearer " + tokens.issue(1, lifetime=-1),
    "damaged": "Bearer " + tokens.issue(1)[:-1],
    "doubled": f"Bearer {tokens.issue(1)} {tokens.issue(1)}",
    "zeros": "Bearer \0\0",
    "not ASCII": "Bearer é~é",
    "very long": "Bearer " + "x" * 50_000,
}


@pytest.mark.usefixtures("writes_nothing")
@pytest.mark.parametrize("token", TOKENS)
def test_a_purchase_without_a_good_token_is_refused(token, ann, sale):
    refused(ann.buy(sale, authorization=TOKENS[token]), 401, "unauthorized")


def test_the_schemes_name_may_be_in_any_case(ann, sale):
    assert ann.buy(sale, authorization=f"bearer {ann.token}").status_code == 201


@pytest.mark.usefixtures("writes_nothing")
@pytest.mark.parametrize("method", ["GET", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS", "TRACE"])
def test_only_a_post_buys(method, ann, sale):
    answer = ann.call(method, f"sales/{sale.pk}/orders", idempotency_key=str(uuid4()))
    assert answer.status_code == 405
    assert answer["Allow"] == "POST"


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "sales/1"),
        ("DELETE", "sales/1"),
        ("POST", "orders/1"),
        ("GET", "orders/1/payment"),
        ("GET", "orders/1/cancel"),
        ("GET", "orders/1/refund"),
        ("GET", "tokens"),
    ],
)
def test_a_wrong_method_is_told_the_right_one(method, path, ann):
    answer = ann.call(method, path)
    refused(answer, 405, "method_not_allowed")
    assert answer["Allow"] == ("GET" if method in {"POST", "DELETE"} else "POST")


# --- the language and the shape of a refusal ---------------------------------------------------


@pytest.mark.parametrize("language", ["zh", "zh-CN,zh;q=0.9,en;q=0.8", "ZH-Hans"])
def test_a_refusal_is_in_chinese_for_who_asks_for_it(language, ann, sale):
    document = ann.buy(sale, 0, accept_language=language).json()
    assert document["title"] == title("invalid_quantity", "zh-hans")
    assert document["code"] == "invalid_quantity"


@pytest.mark.parametrize("language", ["", "en", "de", "en,zh", "*", "\0", "x" * 10_000])
def test_a_refusal_is_in_english_for_everybody_else(language, ann, sale):
    document = ann.buy(sale, 0, accept_language=language).json()
    assert document["title"] == title("invalid_quantity")


def test_a_refusal_that_may_be_tried_again_says_when(ann, sale, monkeypatch):
    from inventory import services
    from inventory.outcomes import Busy, OutcomeUnknown

    for error, code in ((Busy("full"), "busy"), (OutcomeUnknown("cut"), "outcome_unknown")):

        def fail(*arguments, error=error, **more):
            raise error

        monkeypatch.setattr(services, "reserve", fail)
        answer = ann.buy(sale)
        refused(answer, 503, code)
        assert int(answer["Retry-After"]) >= 1
    assert "Retry-After" not in ann.buy(sale, 0)


# --- the rest of the table ---------------------------------------------------------------------


def test_a_sale_can_be_looked_at_by_anybody(ann, sale):
    document = ann.get(f"sales/{sale.pk}", authorization="").json()
    moments = {name: datetime.fromisoformat(document[name]) for name in ("starts_at", "ends_at")}
    assert moments["ends_at"] - moments["starts_at"] == timedelta(days=1)
    assert datetime.fromisoformat(document["server_time"]).utcoffset() == timedelta(0)
    expected = {"price": cny(999), "limit": 2, "available": 10, "status": "open"}
    assert expected.items() <= document.items()


def test_a_sale_says_where_it_stands(ann, sale_of):
    soon = sale_of(starts_in=timedelta(minutes=1))
    over = sale_of(starts_in=timedelta(minutes=-2), lasts=timedelta(minutes=1))
    gone = sale_of(0)
    states = [ann.get(f"sales/{each.pk}").json()["status"] for each in (soon, over, gone)]
    assert states == ["not_started", "ended", "sold_out"]


@pytest.mark.parametrize("sale_id", [0, MISSING, 2**63, 10**30])
def test_a_sale_that_is_not_there_is_not_found(sale_id, ann):
    refused(ann.get(f"sales/{sale_id}"), 404, "not_found")


def test_an_order_is_shown_to_its_buyer(ann, sale):
    placed = ann.buy(sale).json()
    assert ann.get(f"orders/{placed['id']}").json() == placed


CHANGES = ["/payment", "/cancel", "/refund"]


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


@pytest.mark.parametrize("path", ["sales/x", "sales/-1", "sales/1.5", "sales/" + "9" * 5000])
def test_a_path_that_is_none_is_not_found(path, ann):
    assert ann.get(path).status_code == 404


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


# --- parts, answers that do not come, and thirty at once ----------------------------------------


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
    ],
)
def test_a_misspelt_part_does_not_give_back_the_whole_order(body, code, ann, sale):
    order = ann.order(sale, 2)
    answer = ann.call("POST", f"orders/{order}/cancel", body, idempotency_key=A_UUID)
    refused(answer, 422, code)
    assert ann.get(f"orders/{order}").json()["lines"][0]["returned"] == 0


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


# --- tokens and the demo's buyers --------------------------------------------------------------


@pytest.fixture
def password(ann) -> str:
    """Ann's."""
    ann.user.set_password("ann's password")
    ann.user.save()
    return "ann's password"


def test_a_name_and_password_are_exchanged_for_a_token(ann, password):
    credentials = {"username": "ann", "password": password}
    answer = ann.call("POST", "tokens", credentials, authorization="")
    assert answer.status_code == 201
    assert tokens.verify(answer.json()["token"]) == ann.user.pk


@pytest.mark.parametrize(
    "credentials",
    [
        {"username": "ann", "password": "wrong"},
        {"username": "nobody", "password": "ann's password"},
        {"username": "ann' OR 1=1 --", "password": "x"},
    ],
    ids=str,
)
@pytest.mark.usefixtures("password")
def test_wrong_credentials_get_no_token(credentials, ann):
    refused(ann.call("POST", "tokens", credentials), 401, "wrong_credentials")


@pytest.mark.parametrize(
    "credentials",
    [
        {},
        {"username": "ann"},
        {"password": "x"},
        {"username": 1, "password": "x"},
        {"username": ["ann"], "password": "x"},
        {"username": None, "password": None},
        {"username": "", "password": "x"},
        {"username": "a\0nn", "password": "x"},
        {"username": "ann", "password": "x\0"},
        {"username": "x" * 1001, "password": "x"},
    ],
    ids=lambda value: ascii(value)[:40],
)
def test_credentials_that_are_none_are_refused(credentials, ann):
    refused(ann.call("POST", "tokens", credentials), 422, "invalid_request")


@pytest.mark.parametrize("half", ["\ud800", "half a character: \udfff"], ids=ascii)
def test_half_a_character_is_no_text(half, ann):
    credentials = {"username": "ann", "password": half}
    refused(ann.call("POST", "tokens", credentials), 400, "malformed")


def test_an_inactive_user_gets_no_token(ann, password):
    ann.user.is_active = False
    ann.user.save()
    credentials = {"username": "ann", "password": password}
    refused(ann.call("POST", "tokens", credentials), 401, "wrong_credentials")


def test_the_shop_itself_has_no_synthetic_buyers(ann, settings):
    settings.ROOT_URLCONF = "shop.urls"
    refused(ann.call("POST", "demo/buyers", {"count": 1}), 404, "not_found")


@pytest.mark.django_db(transaction=True)
def test_a_buyer_who_was_deleted_is_refused_and_those_in_the_same_batch_are_not(ann, bob, sale):
    bob.user.delete()
    answers = at_once([partial(each.buy, sale) for each in (ann, bob, bob)])
    assert [answer.status_code for answer in answers] == [201, 401, 401]
    refused(answers[1], 401, "unauthorized")
    assert Item.objects.get(pk=sale.item_id).available == 9


def test_no_answer_sets_a_cookie(ann, sale):
    answers = [ann.buy(sale), ann.get(f"sales/{sale.pk}"), ann.buy(sale, 0)]
    assert [dict(answer.cookies) for answer in answers] == [{}] * 3


def test_every_answer_says_its_length(ann, sale):
    for answer in (ann.buy(sale), ann.buy(sale, 0)):
        assert int(answer["Content-Length"]) == len(answer.content)
        assert json.loads(answer.content)
