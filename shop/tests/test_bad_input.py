"""Bad input is refused by its code and writes nothing; what is sent again is done once."""

from __future__ import annotations

from functools import partial
from uuid import uuid4

import pytest

from inventory.tests.helpers import at_once
from shop.accounts import tokens
from shop.conftest import Buyer
from shop.tests.money import check
from shop.tests.openapi import refused, title

pytestmark = pytest.mark.django_db


A_UUID = "0b5481f0-2c1e-4d5a-9f3b-6a7c8d9e0f12"
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
    [None, "", " ", "1", "null", "x" * 36, "é" * 36, A_UUID + "0", A_UUID.replace("-", ""),
     "0" * 10_000, "{" + A_UUID + "}", f"urn:uuid:{A_UUID}", A_UUID.replace("-", "") + "----",
     "0_" + A_UUID[2:]],
    ids=lambda value: str(value)[:12],
)  # fmt: skip
def test_a_key_that_is_no_uuid_is_refused(key, ann, sale):
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
def test_a_purchase_without_a_good_token_is_refused(token, ann, sale):
    refused(ann.buy(sale, authorization=TOKENS[token]), 401, "unauthorized")


def test_the_schemes_name_may_be_in_any_case(ann, sale):
    assert ann.buy(sale, authorization=f"bearer {ann.token}").status_code == 201


@pytest.mark.parametrize(
    ("accepted", "language"),
    [
        *((each, "zh-hans") for each in ("zh", "zh-CN,zh;q=0.9,en;q=0.8", "ZH-Hans")),
        *((each, "en") for each in ("", "en", "de", "en,zh", "*", "\0", "x" * 10_000)),
    ],
    ids=lambda text: repr(text)[:12],
)
def test_a_refusal_is_in_chinese_for_who_asks_for_it_and_else_in_english(
    accepted, language, ann, sale
):
    document = ann.buy(sale, 0, accept_language=accepted).json()
    assert document["title"] == title("invalid_quantity", language)


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("change", ["payment", "cancel", "refund", "refund a part"])
def test_a_call_sent_thirty_times_at_once_is_done_once_and_answered_alike(
    change, sale_of, fake_provider
):
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
