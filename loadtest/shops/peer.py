"""The plain FastAPI and Django shops of our benchmark: the same call, tables and answers."""

from __future__ import annotations

import hmac
import os
import uuid
from collections.abc import Sequence

from loadtest.shop import Books, Level, Outcome, Refused, Request, Response, Sold, Unknown
from loadtest.shops.api import WithoutSteps, call, rows, said

STEPS = (
    ("env", "DJANGO_SETTINGS_MODULE=lab.settings", "{python}", "manage.py", "migrate", "-v0"),
    ("{psql}", "{database}", "-q", "-f", "lab/bench/peers/tables.sql"),
)
ENVIRONMENT = {
    "SHOP_DEMO": "1",
    "DATABASE_URL": "{database}",
    "REDIS_URL": "{redis}",
    "CELERY_BROKER_URL": "{redis}",
    "SHOP_DATA": "{files}",
    "SHOP_PORT": "{port}",
    "WEB_CONCURRENCY": "{workers}",
    "METRICS_FOLDER": "",
    "PEER_KEY": "{secret}",
}
Buyer = tuple[int, str]  # a user's id and an idempotency key


class Peer(WithoutSteps):
    """Sells a row of `peer_sale`; a buyer is a user and the key of their one purchase."""

    version = "0.1.0"
    levels = frozenset({Level.STOCK, Level.REPEATS})

    def __init__(self, host: str) -> None:
        self._key = os.environ.get("PEER_KEY", "").encode()

    def open(self, units: int) -> str:  # noqa: D102
        sale = "INSERT INTO peer_sale (price, stock, available) VALUES (999, %s, %s) RETURNING id"
        [(identity,)] = rows(sale, units, units)
        return str(identity)

    def buyers(self, sale: str, count: int) -> Sequence[Buyer]:  # noqa: D102
        columns = "username, password, email, first_name, last_name, is_superuser, is_staff"
        made = rows(
            f"INSERT INTO accounts_user ({columns}, is_active, date_joined) SELECT "
            "gen_random_uuid(), '!', '', '', '', false, false, true, now() "
            "FROM generate_series(1, %s) RETURNING id",
            count,
        )
        return [(identity, str(uuid.uuid4())) for (identity,) in made]

    def buy(self, sale: str, buyer: Buyer) -> Request:  # noqa: D102
        identity, key = buyer
        signature = hmac.new(self._key, str(identity).encode(), "sha256").hexdigest()
        headers = {"authorization": f"Bearer {identity}.{signature}", "idempotency_key": key}
        return call("POST", f"/api/v1/sales/{sale}/orders", {"quantity": 1}, **headers)

    def outcome(self, sale: str, buyer: Buyer, response: Response) -> Outcome:  # noqa: D102
        answer = said(response)
        if response.status in (200, 201):
            return Sold(str(answer["id"]), answer["quantity"])
        if response.status == 409:
            return Refused(answer["code"])
        return Unknown(f"{response.status} {response.body[:80]!r}")

    def books(self, sale: str) -> Books:  # noqa: D102
        [(total, available)] = rows("SELECT stock, available FROM peer_sale WHERE id = %s", sale)
        sold = "SELECT o.id, r.quantity FROM peer_order o JOIN peer_reservation r"
        orders = rows(f"{sold} ON r.id = o.reservation_id WHERE r.sale_id = %s", sale)
        return Books(total, available, {str(order): units for order, units in orders})
