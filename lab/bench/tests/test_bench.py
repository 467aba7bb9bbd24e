"""The benchmark of the request rate: its rows sell for real, and its old reservations are sound."""

from __future__ import annotations

import json
from contextlib import ExitStack
from typing import Any
from urllib.parse import urlsplit
from uuid import UUID, uuid4

import pytest
import urllib3
from django.db import connection

from inventory.models import BuyerQuota, Item
from lab import environment
from lab.bench import filler, growth, targets
from lab.bench.database import using
from lab.bench.rows import PEERS, Row, Server, peer
from lab.bench.run import Bench, purchases
from lab.stack import entry
from lab.stack.embedded import ServerUrls
from loadtest import bench_client
from shop.audit import examine
from shop.orders.models import Order

FOUND = environment.PROJECT / "docs" / "bench-growth.json"
STOCK = 30


def test_the_committed_chart_is_that_of_the_committed_figures() -> None:
    found = json.loads(FOUND.read_text())
    assert FOUND.with_suffix(".svg").read_text() == growth.chart(found), (
        "make bench ARGS='--growth --redraw'"
    )
    measured = {axis.name: [value for value, _ in cases] for axis, cases in growth.cases(found)}
    assert measured == {
        "concurrency": [16, 128, 1000, 5000],
        "items": [1, 10, 1000],
        "units": [1, 10],
        "reservations": [0, 10_000_000],
    }
    assert all(row["oversold"] == row["lost"] == 0 for row in found["rows"])


def test_the_tables_last_column_compares_with_the_smallest_case() -> None:
    def row(**changed: Any) -> dict[str, Any]:
        figures = {"web_us": 300.0, "database_us": 90.0, "redis_us": 10.0, "rps": 2000.0}
        return {**growth.BASE, **figures, "oversold": 0, "lost": 0, **changed}

    rows = [
        row(),
        row(concurrency=16, web_us=100.0),
        row(units=10),
        row(reservations=7, web_us=700),
    ]
    table = list(growth.markdown({"rows": rows}))
    assert [line.split(" | ")[::6] for line in table[2:]] == [
        ["| 16 connections", "1.00"],
        ["| 128 connections", "2.00"],
        ["| 1 item", "1.00"],
        ["| 1 unit", "1.00"],
        ["| 10 units", "1.00"],
        ["| 0 reservations", "1.00"],
        ["| 7 reservations", "2.00"],
    ]
    assert growth.chart({"rows": rows}).count('class="bad"') == 2


@pytest.fixture
def urls() -> ServerUrls:
    """The servers with the tests' database."""
    found = (environment.text(name) for name in entry.SERVER_VARIABLES)
    database, *others = found
    name = connection.settings_dict["NAME"]
    return ServerUrls(urlsplit(database)._replace(path=f"/{name}").geturl(), *others)


@pytest.fixture
def small_sales(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(filler, "SALE", 100)


@pytest.mark.django_db(transaction=True)
@pytest.mark.usefixtures("small_sales")
def test_old_reservations_pass_the_audit_until_one_is_missing(urls: ServerUrls) -> None:
    filler.fill(urls.database, 250, lambda progress: None)
    found = examine()
    assert [(book.total, book.confirmed, book.oversold) for book in found.items] == [
        (100, 100, 0),
        (100, 100, 0),
        (50, 50, 0),
    ]
    assert (found.problems, found.overdue) == ([], [])
    assert (
        Order.objects.filter(status="fulfilled", lines__reservation__state="confirmed").count()
        == 250
    )
    BuyerQuota.objects.filter(scope=1).update(used=0)
    assert len(examine().problems) == 100


def ask(
    target: targets.Target, sale: int, key: UUID, quantity: int, token: str = ""
) -> tuple[int, Any]:
    headers = {
        "Authorization": f"Bearer {token or target.tokens[0]}",
        "Idempotency-Key": str(key),
    }
    url = f"{target.stack.url}/api/v1/sales/{sale}/orders"
    answer = urllib3.request("POST", url, json={"quantity": quantity}, headers=headers)
    return answer.status, answer.json()


@pytest.mark.long
@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("name", PEERS)
def test_peers_sell_exactly_their_stock(urls: ServerUrls, name: str) -> None:
    row = Row(name, 8, peer(name), strategy="", stock=STOCK)
    assert targets.missing(row.server) == []
    with ExitStack() as cleanup:
        [shop] = targets.start([row.server], urls, cleanup, lambda progress: None).values()
        [sale] = shop.open_sales(row)
        key = uuid4()
        status, order = ask(shop, sale, key, 2)
        assert (status, order["quantity"]) == (201, 2)
        assert ask(shop, sale, key, 2) == (200, order)
        assert ask(shop, sale, key, 1)[0] == 422
        assert ask(shop, sale, uuid4(), 1, token="1.forged")[0] == 401
        assert ask(shop, sale + 1, uuid4(), 1)[0] == 404
        assert shop.books([sale]) == targets.Books(1, 0)
        requests = purchases([sale], shop.tokens)
        load = bench_client.run(
            "127.0.0.1", shop.stack.port, requests, connections=8, count=3 * STOCK
        )
        assert (load.statuses, load.errors) == ({201: STOCK - 2, 409: 2 * STOCK + 2}, 0)
        assert ask(shop, sale, key, 2) == (200, order)
        assert shop.books([sale]) == targets.Books(STOCK - 1, 0)
        with connection.cursor() as cursor:
            cursor.execute("UPDATE peer_sale SET available = 3 WHERE id = %s", [sale])
        assert shop.books([sale]) == targets.Books(STOCK - 1, 3)


@pytest.mark.long
@pytest.mark.django_db(transaction=True)
@pytest.mark.usefixtures("small_sales")
def test_rows_buy_several_units_of_several_items_beside_old_reservations(urls: ServerUrls) -> None:
    server = Server(reservations=250)
    row = Row("combining", 4, server, strategy="combining", items=3, units=10)
    with ExitStack() as cleanup:
        started = targets.start([server], urls, cleanup, lambda progress: None)
        [measured] = Bench(started, 0.5).run([row], 2, lambda row, turn: None)
    figures = measured.to_json()
    assert figures["rps"] > 0
    assert (figures["errors"], figures["oversold"], figures["lost"]) == (0, 0, 0)
    with using(filler.NAME):
        found = examine()
        sold = Item.objects.filter(pk__gte=filler.FIRST_ITEM + 3)
        assert all(item.reserved % 10 == 0 and item.reserved > 0 for item in sold)
        assert len(sold) == 3
        assert found.problems == []
