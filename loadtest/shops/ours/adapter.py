"""This project's shop: a purchase is one call, repeated with the same idempotency key."""

from __future__ import annotations

import uuid
from collections.abc import Sequence

from loadtest.shop import Books, Level, Outcome, Refused, Request, Response, Sold, Unknown
from loadtest.shops.api import Api, WithoutSteps, call, rows, said

Buyer = tuple[str, str]  # a token and an idempotency key


class Adapter(WithoutSteps):
    """Sells a fresh sale of the demo; a buyer is a token and the key of their one purchase."""

    name, version = "this shop", "0.1.0"
    levels = frozenset({Level.STOCK, Level.REPEATS})

    def __init__(self, host: str) -> None:
        self._api = Api(host)

    def open(self, units: int) -> str:  # noqa: D102
        return str(self._api.ask("POST", "/api/v1/demo/sales", {"stock": units})["sale"])

    def buyers(self, sale: str, count: int) -> Sequence[Buyer]:  # noqa: D102
        tokens = self._api.ask("POST", "/api/v1/demo/buyers", {"count": count})["tokens"]
        return [(token, str(uuid.uuid4())) for token in tokens]

    def buy(self, sale: str, buyer: Buyer) -> Request:  # noqa: D102
        token, key = buyer
        headers = {"authorization": f"Bearer {token}", "idempotency_key": key}
        return call("POST", f"/api/v1/sales/{sale}/orders", {"quantity": 1}, **headers)

    def outcome(self, sale: str, buyer: Buyer, response: Response) -> Outcome:  # noqa: D102
        answer = said(response)
        if response.status in (200, 201):
            return Sold(str(answer["id"]), answer["quantity"])
        if response.status in (403, 409, 410):
            return Refused(answer["code"])
        return Unknown(f"{response.status} {answer.get('code', '')}")  # 503: busy, or unknown

    def books(self, sale: str) -> Books:  # noqa: D102
        stock = "SELECT i.total, i.available FROM shop_sale s JOIN inventory_item i"
        [(total, available)] = rows(f"{stock} ON i.id = s.item_id WHERE s.id = %s", sale)
        sold = "SELECT order_id, sum(quantity) FROM shop_orderline WHERE sale_id = %s"
        orders = rows(f"{sold} GROUP BY order_id", sale)
        return Books(total, available, {str(order): int(units) for order, units in orders})
