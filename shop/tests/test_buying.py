"""Purchases by the API: what is sold, refused and left unknown; bad input writes nothing."""

from __future__ import annotations

from datetime import timedelta
from functools import partial
from uuid import uuid4, uuid5

import pytest
from django.db import OperationalError, connection

from inventory import services
from inventory.models import Item, Reservation
from inventory.outcomes import Busy, OutcomeUnknown, Quota
from inventory.tests.helpers import at_once
from shop import checkout
from shop.accounts import tokens
from shop.api import views
from shop.catalogue.models import Sale
from shop.catalogue.sale_cache import sale_cache
from shop.conftest import Buyer
from shop.tests.catalogue import a_sale
from shop.tests.money import check
from shop.tests.openapi import refused, title

pytestmark = pytest.mark.django_db


def test_key_may_be_written_in_capitals(ann, sale):
    key = uuid4()
    assert ann.buy(sale, key=key).status_code == 201
    assert ann.buy(sale, key=str(key).upper()).status_code == 200


@pytest.mark.django_db(transaction=True)
def test_purchase_of_a_deleted_buyer_is_refused_alone(ann, bob, sale):
    bob.user.delete()
    answers = at_once([partial(each.buy, sale) for each in (ann, bob, bob)])
    assert [answer.status_code for answer in answers] == [201, 401, 401]
    refused(answers[1], 401, "unauthorized")
    assert Item.objects.get(pk=sale.item_id).available == 9


@pytest.mark.parametrize(("wrote", "code"), [(False, "busy"), (True, "outcome_unknown")])
def test_change_that_fails_is_unknown_only_after_a_write(wrote, code, ann, sale, monkeypatch):
    order = ann.order(sale)
    pay = views.payments.pay  # type: ignore[attr-defined]

    def fail(order):
        if wrote:
            pay(order)
        raise OperationalError

    monkeypatch.setattr(views.payments, "pay", fail)  # type: ignore[attr-defined]
    refused(ann.post(f"orders/{order}/payment"), 503, code)
    assert ann.get(f"orders/{order}").json()["status"] == ("paid" if wrote else "awaiting_payment")


def test_read_that_fails_is_busy(ann, sale, monkeypatch):
    def fail(*_):
        raise OperationalError

    order = ann.order(sale)
    monkeypatch.setattr(views, "order_document", fail)
    refused(ann.get(f"orders/{order}"), 503, "busy")


def purchase(buyer, *sales, cart):
    """Buy one unit of each sale, or of the last one only."""
    if not cart:
        return buyer.buy(sales[-1])
    body = {"lines": [{"sale": sale.pk, "quantity": 1} for sale in sales]}
    return buyer.call("POST", "orders", body, idempotency_key=str(uuid4()))


@pytest.mark.usefixtures("writes_nothing")
@pytest.mark.parametrize("cart", [False, True])
@pytest.mark.parametrize(
    ("change", "status", "code"),
    [
        ("paused = true", 403, "paused"),
        ("ends_at = starts_at + interval '1 microsecond'", 410, "ended"),
        ("starts_at = now() + interval '1 hour'", 403, "not_started"),
    ],
)
def test_purchase_is_refused_if_only_the_cache_says_open(change, status, code, cart, ann, sale_of):
    """The sale's row decides in the purchase's transaction, by the database's clock."""
    sales = [sale_of(starts_in=timedelta(minutes=-1)) for _ in range(2)]
    for sale in sales:
        sale_cache().refresh(sale.pk)
    with connection.cursor() as cursor:
        cursor.execute(f"UPDATE shop_sale SET {change} WHERE id = %s", [sales[-1].pk])
    assert sale_cache().get(sales[-1].pk).closed() is None, "it is still remembered as open"
    answer = purchase(ann, *sales, cart=cart)
    refused(answer, status, code)
    assert answer.json().get("sale") == (sales[-1].pk if cart else None)


@pytest.mark.parametrize("cart", [False, True])
@pytest.mark.parametrize(
    ("error", "code"), [(Busy("full"), "busy"), (OutcomeUnknown("cut"), "outcome_unknown")]
)
def test_purchase_without_an_outcome_is_not_refused(error, code, cart, ann, sale, monkeypatch):
    def fail(*_, **__):
        raise error

    monkeypatch.setattr(services, "reserve_many", fail)
    answer = purchase(ann, sale, cart=cart)
    refused(answer, 503, code)
    assert int(answer["Retry-After"]) >= 1


def send(buyer, *lines: tuple[Sale, object], key: object = None):
    """Send a cart; lines of (sale, quantity)."""
    body = {"lines": [{"sale": sale.pk, "quantity": quantity} for sale, quantity in lines]}
    return buyer.call("POST", "orders", body, idempotency_key=str(key or uuid4()))


def test_cart_with_an_invalid_quantity_names_its_place(ann):
    first, failing = a_sale(), a_sale()
    document = send(ann, (first, 1), (failing, 0)).json()
    assert document["code"] == "invalid_quantity"
    assert "$.lines[1].quantity" in document["detail"]
    assert Reservation.objects.count() == 0


def test_cart_line_keys_are_those_that_the_api_describes(ann):
    sales, key = sorted([a_sale(), a_sale()], key=lambda sale: sale.pk), uuid4()
    send(ann, (sales[1], 1), (sales[0], 1), key=key)
    keys = dict(Reservation.objects.values_list("scope", "key"))
    assert keys == {sales[0].pk: key, sales[1].pk: uuid5(key, "1")}


A_UUID = "0b5481f0-2c1e-4d5a-9f3b-6a7c8d9e0f12"
QUANTITIES = [
    0, -1, 1001, 2**31, 2**63, -(2**63), 10**400, True, False, None, 1.5,
    "1", "", [], [1], {}, {"quantity": 1},
]  # fmt: skip


@pytest.mark.usefixtures("writes_nothing")
@pytest.mark.parametrize("quantity", QUANTITIES, ids=lambda value: repr(value)[:20])
def test_quantity_that_is_invalid_is_refused(quantity, ann, sale):
    refused(ann.buy(sale, quantity), 422, "invalid_quantity")


def test_quantity_may_be_written_with_a_point(ann, sale):
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
def test_body_that_is_not_an_order_is_refused(body, status, code, ann, sale):
    answer = ann.call("POST", f"sales/{sale.pk}/orders", body, idempotency_key=str(uuid4()))
    refused(answer, status, code)


@pytest.mark.usefixtures("writes_nothing")
@pytest.mark.parametrize(
    "key",
    [None, "", " ", "1", "null", "x" * 36, "é" * 36, A_UUID + "0", A_UUID.replace("-", ""),
     "0" * 10_000, "{" + A_UUID + "}", f"urn:uuid:{A_UUID}", A_UUID.replace("-", "") + "----",
     "0_" + A_UUID[2:]],
    ids=lambda value: str(value)[:12],
)  # fmt: skip
def test_key_that_is_not_a_uuid_is_refused(key, ann, sale):
    sent = {} if key is None else {"idempotency_key": key}
    answer = ann.call("POST", f"sales/{sale.pk}/orders", {"quantity": 1}, **sent)
    refused(answer, 400, "idempotency_key_missing")


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
def test_purchase_without_a_valid_token_is_refused(token, ann, sale):
    refused(ann.buy(sale, authorization=TOKENS[token]), 401, "unauthorized")


def test_token_scheme_may_be_in_any_case(ann, sale):
    assert ann.buy(sale, authorization=f"bearer {ann.token}").status_code == 201


@pytest.mark.parametrize(
    ("accepted", "language"),
    [
        *((each, "zh-hans") for each in ("zh", "zh-CN,zh;q=0.9,en;q=0.8", "ZH-Hans")),
        *((each, "en") for each in ("", "en", "de", "en,zh", "*", "\0", "x" * 10_000)),
    ],
    ids=lambda text: repr(text)[:12],
)
def test_refusal_is_in_chinese_on_request_else_in_english(accepted, language, ann, sale):
    document = ann.buy(sale, 0, accept_language=accepted).json()
    assert document["title"] == title("invalid_quantity", language)


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("change", ["payment", "cancel", "refund", "refund a part"])
def test_call_sent_thirty_times_at_once_is_done_once(change, sale_of, fake_provider):
    sale, ann = sale_of(), Buyer("ann")
    order = ann.order(sale, 2)
    if change.startswith("refund"):
        ann.post(f"orders/{order}/payment")
    call = partial(ann.call, "POST", f"orders/{order}/{change}")
    if change == "refund a part":
        path, part = f"orders/{order}/refund", {"quantity": 1}
        call = partial(ann.call, "POST", path, part, idempotency_key=A_UUID)
    answers = at_once([call] * 30)
    assert {answer.status_code for answer in answers} == {200}
    assert len({answer.content for answer in answers}) == 1
    back = {"payment": 0, "cancel": 0, "refund": 199_800, "refund a part": 99_900}[change]
    assert sum(fake_provider.refunds[order]) == back
    assert len(fake_provider.refunds[order]) == (back > 0)
    assert fake_provider.captures[order] == ([] if change == "cancel" else [199_800])
    check(sale, fake_provider)


@pytest.mark.parametrize("cart", [False, True])
def test_further_quota_of_the_shop_refuses_other_buyers(cart, ann, bob, sale, monkeypatch):
    def of_all_sizes(cached, buyer, details):
        return (Quota.named("product", cached.product, 0, limit=1),)

    monkeypatch.setattr(checkout, "further_quotas", of_all_sizes)
    other_size = Sale.objects.get(pk=a_sale(product=sale.product).pk)
    ann.order(sale)
    if cart:
        body = {"lines": [{"sale": other_size.pk, "quantity": 1}]}
        answer = bob.call("POST", "orders", body, idempotency_key=str(uuid4()))
    else:
        answer = bob.buy(other_size)
    refused(answer, 409, "limit_reached")
    assert Reservation.objects.count() == 1
