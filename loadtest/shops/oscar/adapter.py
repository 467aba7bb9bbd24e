"""django-oscar over django-oscar-api: guests, one basket each, checked out in one call."""

from __future__ import annotations

import base64
import uuid
from typing import Any

from loadtest.shop import Books, Level, Outcome, Refused, Request, Response, Sold, Unknown
from loadtest.shops.api import Api, WithoutSteps, call, rows, said

ADMIN = "Basic " + base64.b64encode(b"admin:flash-sale-proof").decode()


class Adapter(WithoutSteps):
    """Sells one stock record; a buyer is a session's cookie and a basket's address."""

    name, version, levels = "django-oscar", "4.2.1 (API 3.3.0)", frozenset({Level.STOCK})

    def __init__(self, host: str) -> None:
        self._api, self._host = Api(host), host

    def open(self, units: int) -> str:  # noqa: D102
        sku, partner = uuid.uuid4().hex, f"{self._host}/api/admin/partners/1/"
        record = {"partner": partner, "partner_sku": sku, "num_in_stock": units, "price": "9.99"}
        product: Any = {"product_class": "ticket", "structure": "standalone", "title": "Flash"}
        product |= {"slug": sku, "stockrecords": [record]}
        made = self._api.ask("POST", "/api/admin/products/", product, authorization=ADMIN)
        return str(made["id"])

    def buyers(self, sale: str, count: int) -> list[tuple[str, str]]:  # noqa: D102
        return [self._guest() for _ in range(count)]

    def _guest(self) -> tuple[str, str]:
        answer = self._api.send(call("GET", "/api/basket/"))
        cookies = [line.split(";")[0] for line in answer.headers["set-cookie"].split("\n")]
        return "; ".join(cookies), said(answer)["url"]

    def add_to_cart(self, sale: str, buyer: tuple[str, str]) -> Request:  # noqa: D102
        line = {"url": f"{self._host}/api/products/{sale}/", "quantity": 1}
        return call("POST", "/api/basket/add-product/", line, cookie=buyer[0])

    def buy(self, sale: str, buyer: tuple[str, str]) -> Request:  # noqa: D102
        order = {"basket": buyer[1], "guest_email": "buyer@example.com"}
        return call("POST", "/api/checkout/", order, cookie=buyer[0])

    def outcome(self, sale: str, buyer: Any, response: Response) -> Outcome:  # noqa: D102
        answer = said(response)
        if response.status == 200 and "number" in answer:
            return Sold(answer["number"])
        if response.status == 406:  # its word for every order that it does not take
            return Refused(str(answer))
        return Unknown(f"{response.status} {response.body[:80]!r}")

    def books(self, sale: str) -> Books:  # noqa: D102
        stock = "num_in_stock, num_in_stock - coalesce(num_allocated, 0) FROM partner_stockrecord"
        [(total, available)] = rows(f"SELECT {stock} WHERE product_id = %s", sale)
        sold = "SELECT number, sum(quantity) FROM order_line JOIN order_order o ON o.id = order_id"
        orders = rows(f"{sold} WHERE product_id = %s GROUP BY number", sale)
        return Books(total, available, {order: int(units) for order, units in orders})
