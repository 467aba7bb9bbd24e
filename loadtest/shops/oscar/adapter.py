"""django-oscar over django-oscar-api: guests, one basket each, checked out in one call."""

from __future__ import annotations

import base64
import uuid
from collections.abc import Mapping
from typing import Any

from loadtest.shop import Bill, Books, Level, Outcome, Refused, Request, Response, Sold, Unknown
from loadtest.shops.api import Api, WithoutSteps, call, rows, said
from loadtest.shops.oscar import queries as q

ADMIN = "Basic " + base64.b64encode(b"admin:flash-sale-proof").decode()


class Adapter(WithoutSteps):
    """Sells one stock record; a buyer is a session's cookie and a basket's address."""

    name, version = "django-oscar", "4.2.1 (API 3.3.0)"
    levels = frozenset({Level.STOCK, Level.VOUCHERS, Level.CARTS})

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
        [(total, available)] = rows(q.STOCK, sale)
        return Books(total, available, {order: int(units) for order, units in rows(q.SOLD, sale)})

    def look(self, sale: str) -> str:  # noqa: D102
        return q.LOOK % sale

    def voucher(self, sale: str, uses: int) -> str:  # noqa: D102
        code = uuid.uuid4().hex.upper()
        rows(q.VOUCHER, code, code, uses, code, code)  # the API has no call for it
        return code

    def redeem(self, sale: str, buyer: tuple[str, str], voucher: str) -> Request:  # noqa: D102
        return call("POST", "/api/basket/add-voucher/", {"vouchercode": voucher}, cookie=buyer[0])

    def redeemed(self, sale: str, voucher: str) -> int:  # noqa: D102
        return int(rows(q.REDEEMED, voucher)[0][0])

    def add_more(self, sale: str, buyer: tuple[str, str]) -> Request:  # noqa: D102
        return self.add_to_cart(sale, buyer)

    def bills(self, sale: str) -> Mapping[str, Bill]:  # noqa: D102
        return {order: Bill(int(paid), int(worth)) for order, paid, worth in rows(q.BILLS, sale)}
