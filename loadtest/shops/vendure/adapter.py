"""Vendure over its GraphQL interfaces: guests, who pay by the dummy handler."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import Any

from loadtest.shop import (
    Bill,
    Books,
    Declined,
    Level,
    Outcome,
    Refused,
    Request,
    Response,
    Send,
    Sold,
)
from loadtest.shop import Unknown as Unclear
from loadtest.shops.api import Api, call, rows, said
from loadtest.shops.vendure import queries as q


class Adapter:
    """Sells one product variant; a buyer is the token of a guest's session."""

    name, version = "Vendure", "3.7.3"
    levels = frozenset({Level.STOCK, Level.VOUCHERS, Level.CARTS})

    def __init__(self, host: str) -> None:
        self._api = Api(host)

    def _own(self, query: str, **variables: Any) -> Any:
        login = self._api.send(call("POST", "/admin-api", {"query": q.LOGIN}))
        token = login.headers["vendure-auth-token"]
        return self._api.query("/admin-api", query, variables, authorization=f"Bearer {token}")

    def open(self, units: int) -> str:  # noqa: D102
        made = self._own(q.PRODUCT, slug=(sku := uuid.uuid4().hex))["createProduct"]
        found = self._own(q.VARIANT, product=made["id"], sku=sku, units=units)
        return str(found["createProductVariants"][0]["id"])

    def buyers(self, sale: str, count: int) -> list[str]:  # noqa: D102
        new = call("POST", "/shop-api", {"query": "{ activeOrder { id } }"})
        return [self._api.send(new).headers["vendure-auth-token"] for _ in range(count)]

    def _shop(self, buyer: str, query: str) -> Request:
        return call("POST", "/shop-api", {"query": query}, authorization=f"Bearer {buyer}")

    def add_to_cart(self, sale: str, buyer: str) -> Request:  # noqa: D102
        return self._shop(buyer, q.ADD % sale)

    def prepare(self, sale: str, buyer: str, send: Send) -> None:  # noqa: D102
        answer = said(send(self._shop(buyer, q.CHECKOUT % buyer[:16])))
        if (answer.get("data") or {}).get("last", {}).get("__typename") != "Order":
            raise Declined(str(answer)[:200])

    def buy(self, sale: str, buyer: str) -> Request:  # noqa: D102
        return self._shop(buyer, q.PAY)

    def outcome(self, sale: str, buyer: str, response: Response) -> Outcome:  # noqa: D102
        answer = (said(response).get("data") or {}).get("addPaymentToOrder", {})
        if answer.get("state") == "PaymentSettled":
            return Sold(answer["code"])
        if "message" in answer:
            return Refused(answer["message"])
        return Unclear(f"{response.status} {response.body[:200]!r}")

    def books(self, sale: str) -> Books:  # noqa: D102
        [(total, available)] = rows(q.STOCK, sale)
        return Books(total, available, {code: int(units) for code, units in rows(q.SOLD, sale)})

    def voucher(self, sale: str, uses: int) -> str:  # noqa: D102
        self._own(q.COUPON, code=(code := uuid.uuid4().hex), uses=uses)
        return code

    def redeem(self, sale: str, buyer: str, voucher: str) -> Request:  # noqa: D102
        return self._shop(buyer, q.APPLY % voucher)

    def redeemed(self, sale: str, voucher: str) -> int:  # noqa: D102
        return int(rows(q.REDEEMED, voucher)[0][0])

    def add_more(self, sale: str, buyer: str) -> Request:  # noqa: D102
        return self._shop(buyer, q.ADD % sale)

    def bills(self, sale: str) -> Mapping[str, Bill]:  # noqa: D102
        return {code: Bill(int(paid), int(worth)) for code, paid, worth in rows(q.BILLS, sale)}
