"""pretix over its REST API: one order of one ticket from one quota, which may be cancelled."""

from __future__ import annotations

import uuid
from typing import Any

from loadtest.shop import Books, Level, Outcome, Refused, Request, Response, Sold, Unknown
from loadtest.shops.api import Api, WithoutSteps, call, rows, said

TOKEN = "Token flash-sale-proof"
EVENTS = "/api/v1/organizers/flash/events/"


class Adapter(WithoutSteps):
    """Sells one quota of one event; a sale is `event/item/quota`, a buyer is a mail address."""

    name, version = "pretix", "2026.8.0"
    levels = frozenset({Level.STOCK, Level.CANCEL})

    def __init__(self, host: str) -> None:
        self._api = Api(host)

    def _make(self, path: str, **body: Any) -> Any:
        return self._api.ask("POST", EVENTS + path, body, authorization=TOKEN)

    def open(self, units: int) -> str:  # noqa: D102
        event = f"e{uuid.uuid4().hex[:8]}"
        dates = {"date_from": "2100-01-01T20:00:00Z", "timezone": "UTC"}
        self._make("", name={"en": "Flash"}, slug=event, currency="EUR", **dates)
        item = self._make(f"{event}/items/", name={"en": "Ticket"}, default_price="9.99")["id"]
        quota = {"name": "Ticket", "size": units, "items": [item], "variations": []}
        return f"{event}/{item}/{self._make(f'{event}/quotas/', **quota)['id']}"

    def buyers(self, sale: str, count: int) -> list[str]:  # noqa: D102
        return [f"{uuid.uuid4().hex}@example.com" for _ in range(count)]

    def buy(self, sale: str, buyer: str) -> Request:  # noqa: D102
        event, item, _ = sale.split("/")
        who = {"email": buyer, "locale": "en", "sales_channel": "web"}
        order = {"status": "n", "payment_provider": "manual", "positions": [{"item": int(item)}]}
        return call("POST", f"{EVENTS}{event}/orders/", who | order, authorization=TOKEN)

    def outcome(self, sale: str, buyer: str, response: Response) -> Outcome:  # noqa: D102
        answer = said(response)
        if response.status == 201:
            return Sold(answer["code"])
        if response.status == 400 and "quota" in str(answer):
            return Refused(answer["positions"][0]["item"][0])
        return Unknown(f"{response.status} {response.body[:80]!r}")  # 409: a lock's time-out

    def cancel(self, sale: str, buyer: str, order: str) -> Request:  # noqa: D102
        path = f"{EVENTS}{sale.partition('/')[0]}/orders/{order}/mark_canceled/"
        return call("POST", path, {"send_email": False}, authorization=TOKEN)

    def books(self, sale: str) -> Books:  # noqa: D102
        event, item, quota = sale.split("/")
        path = f"{EVENTS}{event}/quotas/{quota}/availability/"
        said = self._api.ask("GET", path, authorization=TOKEN)
        sold = "SELECT code, count(*) FROM pretixbase_orderposition p JOIN pretixbase_order o"
        where = "ON o.id = p.order_id WHERE item_id = %s AND NOT canceled AND status IN ('n', 'p')"
        orders = dict(rows(f"{sold} {where} GROUP BY code", item))
        return Books(said["total_size"], said["available_number"], orders)
