"""The demo's API: as documented, and only where the lab is installed."""

from __future__ import annotations

import json
import os
from datetime import timedelta

import pytest
from prometheus_client import Gauge

from shop.accounts import tokens
from shop.catalogue.models import Sale
from shop.tests.openapi import refused
from shop.tests.other_processes import writing_as

pytestmark = pytest.mark.django_db(transaction=True)


def streamed(answer) -> bytes:
    return b"".join(answer.streaming_content)


def test_demo_api_makes_buyers_who_can_buy(ann, sale):
    answer = ann.call("POST", "demo/buyers", {"count": 3}, authorization="")
    assert answer.status_code == 201
    made = answer.json()["tokens"]
    assert len({tokens.verify(token) for token in made}) == 3
    for token in made:
        assert ann.buy(sale, authorization=f"Bearer {token}").status_code == 201


def test_demo_api_document_has_the_load_tests_calls(client):
    document = client.get("/api/v1/openapi.json").json()
    assert document["tags"][-1]["name"] == "Load tests"
    assert document["paths"]["/api/v1/demo/sales"]["post"]["tags"] == ["Load tests"]


def test_demo_api_counts_the_living_web_processes(ann, sale, tmp_path, monkeypatch):
    monkeypatch.setenv("METRICS_FOLDER", str(tmp_path))
    for name, degraded in (("a.1.web", 0), ("a.2.web", 1), ("a.3.web", 0), ("a.4.celery", 0)):
        with writing_as(name, tmp_path):
            gauge = Gauge("inventory_degraded", "", registry=None, multiprocess_mode="livesum")
            gauge.set(degraded)
    os.utime(tmp_path / "gauge_livesum_a.3.web.db", (0, 0))
    figures = ann.get(f"demo/sales/{sale.pk}/figures").json()
    assert (figures["processes"], figures["degraded"]) == (2, True)


def test_demo_api_makes_and_watches_a_sale_as_documented(ann, settings, tmp_path):
    terms = {"stock": 7, "limit": 2, "strategy": "guard", "starts_in": 0.5, "hold": 60}
    made = ann.call("POST", "demo/sales", terms).json()
    path = f"demo/sales/{made['sale']}"
    figures = ann.get(f"{path}/figures").json()
    assert figures["item"] == made["item"]
    assert not Sale.objects.get(pk=made["sale"]).listed
    assert (figures["available"], figures["strategy"]) == (7, "guard")
    lines = streamed(ann.get(f"{path}/snapshot")).splitlines()
    kinds = [json.loads(line)["kind"] for line in lines]
    assert [kind for kind in kinds if kind not in {"status", "step", "mail"}] == [
        "snapshot",
        "item",
        "sale",
        "movement",
        "end",
    ]
    other = ann.call("POST", "demo/sales", terms).json()["sale"]
    both = streamed(ann.get(f"{path}/snapshot?further_sales={other}")).splitlines()
    sales = [row["id"] for row in map(json.loads, both) if row["kind"] == "sale"]
    assert sorted(map(int, sales)) == sorted([made["sale"], other])
    again = ann.get(f"{path}/figures?further_sales={other}").json()
    assert again == figures
    for others, problem in (("999999999", (404, "not_found")), ("x", (422, "invalid_request"))):
        for name in ("figures", "snapshot", "ledger", "deliveries"):
            refused(ann.get(f"{path}/{name}?further_sales={others}"), *problem)
    assert ann.call("POST", f"{path}/restock", {"units": 3}).json() == {"available": 10}
    refused(ann.call("POST", f"{path}/restock", {"units": 0}), 422, "invalid_request")
    refused(ann.call("POST", "demo/sales/999999999/restock", {"units": 1}), 404, "not_found")
    strategies = ann.get("demo/strategies").json()["strategies"]
    assert strategies[0]["name"] == "combining"
    for name in ("figures", "snapshot", "ledger", "deliveries"):
        refused(ann.get(f"demo/sales/999999999/{name}"), 404, "not_found")
    settings.MAIL_FOLDER = tmp_path
    assert streamed(ann.get(f"{path}/deliveries")).endswith(b'"rows":0}\n')
    settings.MAIL_FOLDER = tmp_path / "nowhere"
    refused(ann.get(f"{path}/deliveries"), 404, "not_found")
    settings.PSP_KEY = "wrong"
    refused(ann.get(f"{path}/ledger"), 503, "busy")


COUNTS: tuple[object, ...] = (0, -1, 20_001, 10**30, True, "1", None, 1.5, [])
TERMS = (
    {"stock": -1},
    {"stock": 100_000_001},
    {"stock": True},
    {"limit": 0},
    {"strategy": "hope"},
    {"strategy": ["naive"]},
    {"starts_in": -1},
    {"hold": "long"},
    {"hold": False},
)


@pytest.mark.parametrize(
    ("path", "wanted"),
    [*(("buyers", {"count": count}) for count in COUNTS), *(("sales", terms) for terms in TERMS)],
    ids=repr,
)
def test_demo_api_refuses_impossible_buyers_and_sales(ann, path, wanted):
    refused(ann.call("POST", f"demo/{path}", wanted), 422, "invalid_request")


def test_demo_api_changes_a_sale_and_returns_the_times(ann):
    terms = {"price": 1_237, "hold": 3, "restock_cancelled": False, "restock_returned": False}
    sale = ann.call("POST", "demo/sales", terms).json()["sale"]
    made = Sale.objects.get(pk=sale)
    assert (made.price, made.hold) == (1_237, timedelta(seconds=3))
    assert (made.restock_cancelled, made.restock_returned) == (False, False)
    path = f"demo/sales/{sale}/terms"
    before = ann.call("POST", path, {}).json()
    assert (before["sale"], before["price"], before["paused"]) == (sale, 1_237, False)
    terms = {"price": 5, "paused": True, "starts_in": -60, "ends_in": 0}
    after = ann.call("POST", path, terms).json()
    assert before["asked"] <= before["done"] <= after["asked"] <= after["done"]
    assert (after["price"], after["paused"]) == (5, True)
    assert after["ends_at"] - after["starts_at"] == 60_000_000
    assert before["done"] <= after["ends_at"] <= after["asked"]
    shown = ann.call("POST", path, {}).json()
    assert {**shown, "asked": 0, "done": 0} == {**after, "asked": 0, "done": 0}
    changed = Sale.objects.get(pk=sale)
    assert (changed.price, changed.paused) == (5, True)


def test_terms_that_do_not_fit_are_refused_and_change_nothing(ann):
    sale = ann.call("POST", "demo/sales", {}).json()["sale"]
    path = f"demo/sales/{sale}/terms"
    wrong = (
        {"price": -1},
        {"price": 10**9 + 1},
        {"price": True},
        {"paused": 1},
        {"ends_in": "now"},
        {"hold": 5},
        {"price": 7, "starts_in": 100, "ends_in": 100},
    )
    for terms in wrong:
        refused(ann.call("POST", path, terms), 422, "invalid_request")
    assert Sale.objects.get(pk=sale).price == 99_900
    refused(ann.call("POST", "demo/sales/999999999/terms", {}), 404, "not_found")
