"""A walk in a shop that is the model itself: where it leads, and that its answers are allowed."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from random import Random

from msgspec.structs import replace

from loadtest import purchases
from loadtest.checker import FAIL, PASS, judge
from loadtest.checker import snapshot as s
from loadtest.checker.verdict import Finding
from loadtest.client import Connection
from loadtest.crowd import Crowd, OwnSales
from loadtest.files import RunFiles
from loadtest.history import Recorder, operations
from loadtest.roles import MAIN, OWN
from loadtest.scenarios import walk
from loadtest.shop import Request
from loadtest.shopper import Shopper
from loadtest.shops.flash_sale.answers import Answer, read
from loadtest.shops.flash_sale.specification import Promises
from loadtest.tests.fake_shop import FOREVER, FakeShop
from loadtest.tests.model_shop import CURRENCY
from shop.specification.order import Sale

OFFERS = {"1": (3, 2, 1_237), "2": (5, 3, 50_049)}
"""Units, limit and price of each sale."""


class Direct(Connection):
    """A connection that the shop answers at once."""

    def __init__(self, shop: FakeShop) -> None:
        super().__init__("model", 1)
        self._shop = shop

    def like(self) -> Connection:
        return self

    def request(self, request: Request, headers: Mapping[str, str]) -> Answer:
        status, body = self._shop.handle(request.method, request.path, headers, request.body)
        return read(status, json.dumps(body).encode())


class Hasty(Shopper):
    sleep = staticmethod(lambda _: None)


def a_shop(limits: Sequence[int] = (2, 3)) -> FakeShop:
    """A shop with these sales, but for their limits."""
    terms = zip(OFFERS.items(), limits, strict=True)
    return FakeShop(
        *(
            Sale(name, stock, price, CURRENCY, limit, -1, FOREVER, FOREVER)
            for (name, (stock, _, price)), limit in terms
        )
    )


def walked(shop: FakeShop, folder: Path) -> Finding:
    """Walk through a shop, and judge that by what its sales should be."""
    recorder = Recorder(folder / "h.jsonl")
    sales = {MAIN: purchases.Sale("9", None, 1, 0.0)}
    for role, (sale, (_, limit, _)) in zip(OWN[0], OFFERS.items(), strict=True):
        sales[role] = purchases.Sale(sale, sale, limit, 0.0)
    crowd = Crowd(sales, recorder, lambda name: name.replace(".", ""), own=OwnSales(sales))
    walk(Hasty(crowd, "b0", Direct(shop)), Random(7))
    recorder.close()
    rows = [
        replace(row, limit=OFFERS[row.id][1]) if isinstance(row, s.Sale) else row
        for row in shop.rows()
    ]
    files = RunFiles(folder)
    s.write(files.final, s.Header(1), rows)
    return judge(files, properties=["P21"], specification=Promises)["P21"]


def test_a_walk_meets_every_edge_and_gives_everything_back(tmp_path: Path) -> None:
    shop = a_shop()
    finding = walked(shop, tmp_path)
    assert finding.verdict == PASS, finding
    assert [shop.held(sale, shop.orders) for sale in shop.sales] == [0, 0]
    calls = list(operations(tmp_path / "h.jsonl"))
    assert {each.must for each in calls} == {0, 400, 401, 404, 409, 422}
    assert [each for each in calls if each.must not in (0, each.status)] == []
    refusals = {each.code for each in calls} - {""}
    assert refusals >= {
        *("sold_out", "limit_reached", "idempotency_key_reused", "invalid_quantity", "not_found"),
        *("order_awaiting_payment", "order_paid", "order_cancelled", "order_refunded"),
        *("payment_declined", "not_without_another_line"),
    }
    told = [each.told for each in calls if each.code == "sold_out" and each.told is not None]
    assert {each.may_come_back for each in told} == {True, False}
    assert len({each.buyer for each in calls}) == 3


def test_a_shop_with_another_limit_than_it_says_is_found(tmp_path: Path) -> None:
    finding = walked(a_shop(limits=(2, 4)), tmp_path)
    assert finding.verdict == FAIL
    assert "of sale 2" in finding.detail
