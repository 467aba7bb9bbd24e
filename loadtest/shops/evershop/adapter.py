"""EverShop over its REST interface: guests, who pay for a ticket on delivery."""

from __future__ import annotations

import uuid
from typing import Any

from loadtest.shop import Books, Declined, Level, Outcome, Refused, Request, Response, Send, Sold
from loadtest.shop import Unknown as Unclear
from loadtest.shops.api import Api, WithoutSteps, call, rows, said
from loadtest.shops.evershop import queries as q


class Adapter(WithoutSteps):
    """Sells one product that needs no delivery; a buyer is a cart, which is made with its unit."""

    name, version, levels = "EverShop", "2.2.1", frozenset({Level.STOCK})

    def __init__(self, host: str) -> None:
        self._api = Api(host)

    def open(self, units: int) -> str:  # noqa: D102
        token = self._api.ask("POST", "/api/user/tokens", q.ADMIN)["data"]["accessToken"]
        owner = {"authorization": f"Bearer {token}"}
        product = q.PRODUCT | {"url_key": (sku := uuid.uuid4().hex), "sku": sku, "qty": units}
        self._api.ask("POST", "/api/products", product, **owner)
        return f"{sku}/{units}"

    def _guest(self, name: str, path: str, body: Any) -> Request:
        # Calls are limited per address; behind a proxy, each guest has their own.
        address = ".".join(str(part) for part in uuid.uuid5(q.GUESTS, name).bytes[:3])
        return call("POST", f"/api/{path}", body, x_forwarded_for=f"10.{address}")

    def buyers(self, sale: str, count: int) -> list[str]:  # noqa: D102
        cart = {"items": [{"sku": sale.split("/")[0], "qty": 1}]}
        guests = [self._guest(f"{sale}/{number}", "carts", cart) for number in range(count)]
        return [said(self._api.send(guest))["data"]["cartId"] for guest in guests]

    def prepare(self, sale: str, buyer: str, send: Send) -> None:  # noqa: D102
        for step, body in q.STEPS.items():
            answer = said(send(self._guest(buyer, f"carts/{buyer}/{step}", body)))
            if "error" in answer:
                raise Declined(f"{step}: {answer['error']['message']}")

    def buy(self, sale: str, buyer: str) -> Request:  # noqa: D102
        order = {"cart_id": buyer, "customer": {"email": "buyer@example.com"}}
        return self._guest(buyer, f"carts/{buyer}/checkout", order)

    def outcome(self, sale: str, buyer: str, response: Response) -> Outcome:  # noqa: D102
        answer = said(response)
        if response.status == 200 and "order_id" in answer.get("data", {}):
            return Sold(str(answer["data"]["order_id"]))
        if q.REFUSED in (problem := str(answer.get("error", {}).get("message"))):
            return Refused(problem)  # its word, with status 500, for a transaction rolled back
        return Unclear(f"{response.status} {response.body[:200]!r}")

    def books(self, sale: str) -> Books:  # noqa: D102
        sku, units = sale.split("/")
        orders = {order: int(units) for order, units in rows(q.SOLD, sku)}
        return Books(int(units), rows(q.LEFT, sku)[0][0], orders)
