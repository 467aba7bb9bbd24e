"""A walk in a shop that is the model itself: where it leads, and that its answers are allowed."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from itertools import count
from pathlib import Path
from random import Random
from typing import Any

import pytest

from loadtest.checker import FAIL, PASS, Verdict, judge
from loadtest.checker import snapshot as s
from loadtest.client import Connection
from loadtest.history import Recorder, operations
from loadtest.purchases import Sale
from loadtest.roles import MAIN, OWN
from loadtest.scenarios import walk
from loadtest.shop import Offer, Possible, Question, Request, Specification
from loadtest.shopper import OwnSales, Shopper
from loadtest.shops.flash_sale.answers import Answer
from loadtest.shops.flash_sale.specification import Promises

OFFERS = {"1": Offer(3, 2, 1_237, "EUR"), "2": Offer(5, 3, 50_049, "EUR")}

PATH = re.compile(r"/api/v1/(?:demo/)?(?P<kind>sales|orders)(?:/(?P<id>\d+))?(?:/(?P<op>\w+))?")


class ModelShop(Connection):
    """Answers as the specification allows, drawn at random where it leaves a choice."""

    def __init__(self, offers: dict[str, Offer]) -> None:
        super().__init__("model", 1)
        self.specification: Specification = Promises()
        self.state: Any = self.specification.opened(offers)
        self.added = dict.fromkeys(offers, 0)
        self._random, self._ids = Random(1), count(1)

    def like(self) -> Connection:
        return self

    def request(self, request: Request, headers: Mapping[str, str]) -> Answer:
        asked = self._question(request.path, headers, json.loads(request.body or b"{}"))
        if asked is None:
            return Answer(422, "invalid_quantity", {}, 0.0, 0)
        allowed = sorted(self.specification.answers(self.state, asked), key=_place)
        answer = self._random.choice(allowed)
        self.state = answer.state
        return Answer(answer.said.status, answer.said.code, self._document(answer), 0.0, 0)

    def _question(
        self, path: str, headers: Mapping[str, str], body: dict[str, Any]
    ) -> Question | None:
        """Read a request; None for a part that does not say of which line."""
        found = PATH.match(path)
        assert found is not None
        buyer = headers["Authorization"].removeprefix("Bearer ")
        key, identity = headers.get("Idempotency-Key", ""), found["id"]
        if found["kind"] == "sales":
            op = {None: "look", "orders": "order", "restock": "restock"}[found["op"]]
            units = body.get("quantity", body.get("units", 0))
            self.added[identity] += body.get("units", 0)
            new = str(next(self._ids)) if op == "order" else None
            return Question(op, buyer, key, ((identity, units),), order=new)
        if identity is None:
            lines = tuple(sorted((str(each["sale"]), each["quantity"]) for each in body["lines"]))
            return Question("order", buyer, key, lines, cart=True, order=str(next(self._ids)))
        sale = body.get("sale", self._only_line(identity))
        if "quantity" in body and sale is None:
            return None
        part = ((str(sale), body["quantity"]),) if "quantity" in body else ()
        return Question(found["op"] or "read", buyer, key, part, order=identity)

    def _only_line(self, identity: str) -> str | None:
        [order] = [each.order for each in self.state.orders if each.number == identity]
        return order.lines[0].sale.name if len(order.lines) == 1 else None

    def _document(self, answer: Possible) -> dict[str, Any]:
        said = answer.said
        told = {"code": said.code, "available": said.available, "left": said.left}
        body: dict[str, Any] = {
            name: value for name, value in told.items() if value not in (None, "")
        }
        if answer.coming and True in self.specification.may_come_back(self.state, answer.coming):
            body["may_come_back"] = True
        if said.about:
            body["sale"] = int(said.about)
        if said.shown is not None:
            worth = {"amount": said.shown.amount, "currency": said.shown.currency}
            body["status"] = said.shown.status
            body["price" if said.order is None else "amount"] = worth
            body["refunded"] = {"amount": said.shown.refunded}
            body["lines"] = [{"returned": said.shown.returned}]
        if said.order is not None:
            body["id"] = said.order
        return body


def _place(answer: Possible) -> tuple[Any, ...]:
    """A place for an answer that does not depend on keys, which are new in every run."""
    orders = [known.order for known in answer.state.orders]
    money = [(m.amount, m.state, m.there) for o in orders for m in (*o.payments, *o.refunds)]
    return repr(answer.said), [order.status for order in orders], money


@pytest.fixture
def walked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[ModelShop], Verdict]:
    """Walk through a shop, and judge that by what its sales should be."""
    # The model knows well-formed requests only.
    monkeypatch.setattr("loadtest.scenarios.steps.invalid_requests", lambda *_: ())

    def judged(shop: ModelShop) -> Verdict:
        recorder = Recorder(tmp_path / "h.jsonl")
        sales = {MAIN: Sale("9", None, 1, 0.0)}
        own = zip(OWN[0], OFFERS.items(), strict=True)
        sales |= {role: Sale(sale, sale, each.limit, 0.0) for role, (sale, each) in own}

        def shopper(number: int) -> Shopper:
            made = Shopper(
                name=f"b{number}",
                token=f"b{number}",
                sales=sales,
                own=OwnSales(sales),
                friend=shopper,
                connection=shop,
                recorder=recorder,
                report=lambda _: None,
            )
            made.sleep = lambda _: None
            return made

        walk(shopper(0), Random(7))
        recorder.close()
        rows: list[s.Row] = []
        for sale, offer in OFFERS.items():
            total = offer.stock + shop.added[sale]
            rows.append(s.Item(sale, total, total, 0, 0, total))
            rows += [s.Movement(1, sale, offer.stock, "restock")]
            rows.append(s.Sale(sale, sale, offer.limit, offer.price, offer.currency))
        s.write(tmp_path / "final", s.Header(1), rows)
        files = [recorder.path], tmp_path / "final"
        return judge(*files, properties=["P21"], specification=Promises())

    return judged


def test_a_walk_meets_every_edge_and_gives_everything_back(
    walked: Callable[[ModelShop], Verdict], tmp_path: Path
) -> None:
    shop = ModelShop(OFFERS)
    verdict = walked(shop)
    assert verdict["P21"].verdict == PASS, verdict
    assert shop.specification.without_ended(shop.state).orders == ()
    calls = list(operations(tmp_path / "h.jsonl"))
    assert {each.must for each in calls} == {0, 409, 422}
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


def test_a_shop_with_another_limit_than_it_says_is_found(
    walked: Callable[[ModelShop], Verdict],
) -> None:
    verdict = walked(ModelShop(OFFERS | {"2": OFFERS["2"]._replace(limit=4)}))
    assert verdict["P21"].verdict == FAIL
    assert "of sale 2" in verdict["P21"].detail
