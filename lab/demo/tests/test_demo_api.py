"""The demo's API: as documented, and only where the lab is installed."""

from __future__ import annotations

import json

import pytest

from shop.accounts import tokens
from shop.api.tests.test_api import refused
from shop.api.tests.test_openapi import call, code_of

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


def test_a_load_tests_sale_is_made_and_watched_as_documented(call, client, settings):
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
    assert call("get", f"{path}/figures?beside={other}").json() == figures
    for beside, code in (("999999999", "not_found"), ("x", "invalid_request")):
        for name in ("figures", "snapshot", "ledger"):
            assert code_of(call("get", f"{path}/{name}?beside={beside}")) == code
    assert call("post", f"{path}/restock", {"units": 3}).json() == {"available": 10}
    assert code_of(call("post", f"{path}/restock", {"units": 0})) == "invalid_request"
    assert (
        code_of(call("post", "/api/v1/demo/sales/999999999/restock", {"units": 1})) == "not_found"
    )
    strategies = call("get", "/api/v1/demo/strategies").json()["strategies"]
    assert strategies[0]["name"] == "combining"
    for name in ("figures", "snapshot", "ledger"):
        assert code_of(call("get", f"/api/v1/demo/sales/999999999/{name}")) == "not_found"
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
