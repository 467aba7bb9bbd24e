"""Medusa over its store interface: guests, who pay by the built-in manual provider."""

from __future__ import annotations

import uuid

from loadtest.shop import Books, Declined, Level, Outcome, Refused, Request, Response, Send, Sold
from loadtest.shop import Unknown as Unclear
from loadtest.shops.api import Api, call, rows, said
from loadtest.shops.medusa import queries as q


class Adapter:
    """Sells one product variant; a buyer is a cart's id."""

    name, version, levels = "Medusa", "2.21.2", frozenset({Level.STOCK})

    def __init__(self, host: str) -> None:
        self._api, self._key = Api(host), ""

    def _store(self, path: str, body: object) -> Request:
        return call("POST", f"/store/{path}", body, x_publishable_api_key=self._key)

    def open(self, units: int) -> str:  # noqa: D102
        token = self._api.ask("POST", "/auth/user/emailpass", q.ADMIN)["token"]
        owner = {"authorization": f"Bearer {token}"}
        [(self._key, channel, place)] = rows(q.SEEDED)
        item = q.item(sku := uuid.uuid4().hex, place, units)
        made = self._api.ask("POST", "/admin/inventory-items", item, **owner)["inventory_item"]
        product = q.product(sku, channel, made["id"])
        made = self._api.ask("POST", "/admin/products", product, **owner)
        return str(made["product"]["variants"][0]["id"])

    def buyers(self, sale: str, count: int) -> list[str]:  # noqa: D102
        new = self._store("carts", q.CART)
        return [said(self._api.send(new))["cart"]["id"] for _ in range(count)]

    def add_to_cart(self, sale: str, buyer: str) -> Request:  # noqa: D102
        return self._store(f"carts/{buyer}/line-items", {"variant_id": sale, "quantity": 1})

    def prepare(self, sale: str, buyer: str, send: Send) -> None:  # noqa: D102
        made = said(send(self._store("payment-collections", {"cart_id": buyer})))
        path = f"payment-collections/{made.get('payment_collection', {}).get('id')}"
        if send(self._store(f"{path}/payment-sessions", q.PAYMENT)).status != 200:
            raise Declined(str(made)[:200])

    def buy(self, sale: str, buyer: str) -> Request:  # noqa: D102
        return self._store(f"carts/{buyer}/complete", {})

    def outcome(self, sale: str, buyer: str, response: Response) -> Outcome:  # noqa: D102
        answer = said(response)
        if response.status == 200 and answer.get("order"):
            return Sold(answer["order"]["id"])
        if q.REFUSED in answer.get("message", ""):
            return Refused(q.REFUSED)
        return Unclear(f"{response.status} {response.body[:200]!r}")

    def books(self, sale: str) -> Books:  # noqa: D102
        [(total, left)] = rows(q.STOCK, sale)
        return Books(int(total), int(left), {order: int(n) for order, n in rows(q.SOLD, sale)})
