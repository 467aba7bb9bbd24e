"""The demo's API: as documented, and only where the lab is installed."""

from __future__ import annotations

import json
from datetime import timedelta

import pytest

from shop.accounts import tokens
from shop.api.tests.test_api import refused
from shop.api.tests.test_openapi import call, code_of
from shop.catalogue.models import Sale

__all__ = ["call"]


def test_the_demo_makes_buyers_who_can_buy(ann, sale):
    answer = ann.call("POST", "demo/buyers", {"count": 3}, authorization="")
    assert answer.status_code == 201
    made = answer.json()["tokens"]
    assert len({tokens.verify(token) for token in made}) == 3
    for token in made:
        assert ann.buy(sale, authorization=f"Bearer {token}").status_code == 201


@pytest.mark.parametrize("count", [0, -1, 20_001, 10**30, True, "1", None, 1.5, []], ids=repr)
def test_a_number_of_buyers_that_is_none_is_refused(count, ann):
    refused(ann.call("POST", "demo/buyers", {"count": count}), 422, "invalid_request")


def test_a_load_tests_sale_is_made_and_watched_as_documented(call, client, settings, tmp_path):
    wish = {"stock": 7, "limit": 2, "strategy": "guard", "starts_in": 0.5, "hold": 60}
    made = call("post", "/api/v1/demo/sales", wish).json()
    path = f"/api/v1/demo/sales/{made['sale']}"
    figures = call("get", f"{path}/figures").json()
    assert figures["item"] == made["item"]
    assert (figures["available"], figures["strategy"]) == (7, "guard")
    lines = b"".join(client.get(f"{path}/snapshot").streaming_content).splitlines()
    assert [json.loads(line)["kind"] for line in lines] == [
        *("snapshot", "item", "sale", "movement", "end")
    ]
    other = call("post", "/api/v1/demo/sales", wish).json()["sale"]
    both = b"".join(client.get(f"{path}/snapshot?beside={other}").streaming_content).splitlines()
    sales = [row["id"] for row in map(json.loads, both) if row["kind"] == "sale"]
    assert sorted(map(int, sales)) == sorted([made["sale"], other])
    again = call("get", f"{path}/figures?beside={other}").json()
    del again["counters"], figures["counters"]  # these calls are counted too
    assert again == figures
    for beside, code in (("999999999", "not_found"), ("x", "invalid_request")):
        for name in ("figures", "snapshot", "ledger", "deliveries"):
            assert code_of(call("get", f"{path}/{name}?beside={beside}")) == code
    assert call("post", f"{path}/restock", {"units": 3}).json() == {"available": 10}
    assert code_of(call("post", f"{path}/restock", {"units": 0})) == "invalid_request"
    assert (
        code_of(call("post", "/api/v1/demo/sales/999999999/restock", {"units": 1})) == "not_found"
    )
    strategies = call("get", "/api/v1/demo/strategies").json()["strategies"]
    assert strategies[0]["name"] == "combining"
    for name in ("figures", "snapshot", "ledger", "deliveries"):
        assert code_of(call("get", f"/api/v1/demo/sales/999999999/{name}")) == "not_found"
    settings.MAIL_FOLDER = tmp_path
    assert b"".join(client.get(f"{path}/deliveries").streaming_content).endswith(b'"rows":0}\n')
    settings.MAIL_FOLDER = tmp_path / "nowhere"
    assert code_of(call("get", f"{path}/deliveries")) == "not_found"
    settings.PSP_KEY = "wrong"
    assert code_of(call("get", f"{path}/ledger")) == "busy"


@pytest.mark.parametrize(
    "wish",
    [
        {"stock": -1},
        {"stock": 1_000_001},
        {"stock": True},
        {"limit": 0},
        {"strategy": "hope"},
        {"strategy": ["naive"]},
        {"starts_in": -1},
        {"hold": "long"},
        {"hold": False},
    ],
)
def test_a_sale_that_cannot_be_made_is_answered_as_documented(call, wish):
    assert code_of(call("post", "/api/v1/demo/sales", wish)) == "invalid_request"


def test_a_sale_is_changed_and_says_between_which_moments(call):
    wish = {"price": 1_237, "hold": 3, "restock_cancelled": False, "restock_returned": False}
    sale = call("post", "/api/v1/demo/sales", wish).json()["sale"]
    made = Sale.objects.get(pk=sale)
    assert (made.price, made.hold) == (1_237, timedelta(seconds=3))
    assert (made.restock_cancelled, made.restock_returned) == (False, False)
    path = f"/api/v1/demo/sales/{sale}/terms"
    before = call("post", path, {}).json()
    assert (before["sale"], before["price"], before["paused"]) == (sale, 1_237, False)
    wish = {"price": 5, "paused": True, "starts_in": -60, "ends_in": 0}
    after = call("post", path, wish).json()
    assert before["asked"] <= before["done"] <= after["asked"] <= after["done"]
    assert (after["price"], after["paused"]) == (5, True)
    assert after["ends_at"] - after["starts_at"] == 60_000_000
    assert before["done"] <= after["ends_at"] <= after["asked"]
    shown = call("post", path, {}).json()
    assert {**shown, "asked": 0, "done": 0} == {**after, "asked": 0, "done": 0}
    changed = Sale.objects.get(pk=sale)
    assert (changed.price, changed.paused) == (5, True)


def test_terms_that_do_not_fit_are_refused_and_change_nothing(call):
    sale = call("post", "/api/v1/demo/sales", {}).json()["sale"]
    path = f"/api/v1/demo/sales/{sale}/terms"
    wrong = (
        *({"price": -1}, {"price": 10**9 + 1}, {"price": True}, {"paused": 1}, {"ends_in": "now"}),
        *({"hold": 5}, {"price": 7, "starts_in": 100, "ends_in": 100}),
    )
    for wish in wrong:
        assert code_of(call("post", path, wish)) == "invalid_request"
    assert Sale.objects.get(pk=sale).price == 99_900
    assert code_of(call("post", "/api/v1/demo/sales/999999999/terms", {})) == "not_found"
