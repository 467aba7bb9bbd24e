"""`make prove`: the shop on fresh servers, a rush of buyers, and a verdict by the shop's books.

All buyers press the button at one moment: `loadtest` (wheels/) holds back the last byte of each
request and sends all of them together. Then every promise to a buyer is compared with the books.
Exit code: 0 the shop holds, 1 it is broken, 2 it could not be judged.
"""

from __future__ import annotations

import argparse
import json
import os
import secrets
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from uuid import uuid4

import django
from django.db import connections
from loadtest.rush.run import rush_shop
from loadtest.rush.verdict import lines
from loadtest.shop import (
    SOLD_OUT,
    Books,
    Level,
    Outcome,
    Refused,
    Request,
    Response,
    Send,
    Sold,
    Unknown,
)

from development.embedded import private_servers
from development.ports import next_free

REFUSED = frozenset({400, 401, 403, 404, 409, 410, 422, 429})
"""After these the shop has done nothing."""


@contextmanager
def lent() -> Iterator[None]:
    """Return the database connection to its pool: the rush calls from threads that soon end."""
    try:
        yield
    finally:
        connections.close_all()


@dataclass(frozen=True)
class Buyer:
    """A buyer's token, and the idempotency key of their one purchase."""

    token: str
    key: str


class Adapter:
    """The shop as a rush sees it: its API, and its books through the ORM."""

    name, version = "this", "shop"
    levels = frozenset({Level.STOCK, Level.REPEATS, Level.CANCEL})

    @lent()
    def open(self, units: int) -> str:
        """Open a fresh sale."""
        from shop.catalogue.sales import open_sale

        return str(open_sale(stock=units, price=100, limit=1).pk)

    @lent()
    def buyers(self, sale: str, count: int) -> Sequence[Buyer]:
        """Make accounts that nobody can sign in to, each with a token."""
        from shop.accounts.models import User
        from shop.accounts.tokens import issue_to

        made = User.objects.bulk_create(
            User(username=f"rush-{secrets.token_hex(8)}", password="!") for _ in range(count)
        )
        return [Buyer(issue_to(user), str(uuid4())) for user in made]

    def add_to_cart(self, sale: str, buyer: Buyer) -> Request | None:
        """Return none: a cart is in the buyer's browser until it is ordered."""
        return None

    def prepare(self, sale: str, buyer: Buyer, send: Send) -> None:
        """Do nothing: an order is paid after it is opened."""

    def buy(self, sale: str, buyer: Buyer) -> Request:
        """Buy a unit; the same again is a repeat."""
        headers = {**_headers(buyer), "Idempotency-Key": buyer.key}
        return Request("POST", f"/api/v1/sales/{sale}/orders", headers, b'{"quantity": 1}')

    def cancel(self, sale: str, buyer: Buyer, order: str) -> Request:
        """Cancel an order."""
        return Request("POST", f"/api/v1/orders/{order}/cancel", _headers(buyer), b"{}")

    def outcome(self, sale: str, buyer: Buyer, response: Response) -> Outcome:
        """Understand an answer to a purchase."""
        body = json.loads(response.body or b"{}")
        if response.status in (200, 201):
            return Sold(str(body["id"]))
        code = str(body.get("code", f"status {response.status}"))
        if response.status in REFUSED or code == "busy":
            return Refused(SOLD_OUT if code == SOLD_OUT else code)
        return Unknown(code)

    @lent()
    def books(self, sale: str) -> Books:
        """Read the item, and the orders that hold stock."""
        from shop.catalogue.models import Sale
        from shop.orders.models import OrderLine

        item = Sale.objects.select_related("item").get(pk=int(sale)).item
        lines = OrderLine.objects.filter(sale=int(sale)).select_related("reservation")
        orders = {str(line.order_id): line.live for line in lines if line.live}
        return Books(item.total, item.available, orders)


def _headers(buyer: Buyer) -> dict[str, str]:
    return {"Authorization": f"Bearer {buyer.token}", "Content-Type": "application/json"}


def main() -> int:
    """Start the shop, rush it, and print the verdict."""
    parser = argparse.ArgumentParser(prog="make prove", description=__doc__)
    parser.add_argument("--stock", type=int, default=20, help="units (default: 20)")
    parser.add_argument("--buyers", type=int, default=120, help="per round (default: 120)")
    parser.add_argument("--rounds", type=int, default=2, help="of each kind (default: 2)")
    options = parser.parse_args()
    with private_servers(durable=False) as servers:
        port = next_free(20_000)
        url = f"http://127.0.0.1:{port}"
        os.environ.update(servers.urls.as_environment())
        os.environ |= {"SHOP_DEMO": "1", "SHOP_PORT": str(port), "SHOP_DATA": str(servers.folder)}
        os.environ["DJANGO_SETTINGS_MODULE"] = "development.settings"
        django.setup()
        from django.core.management import call_command

        from development.processes import Web

        call_command("migrate", verbosity=0, interactive=False)
        with Web(port=port, path="/readyz"):
            size = (options.stock, options.buyers, options.rounds)
            result = rush_shop(Adapter(), *size, host=url, repeat="make prove")
    print(*lines(result), sep="\n")
    return int(result.exit_code)


if __name__ == "__main__":
    sys.exit(main())
