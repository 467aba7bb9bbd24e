"""A primary whose synchronous standby never comes: a write is answered, and its truth found later.

Such a commit returns only when a standby has it, and no time-out of the server ends that wait.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import urlsplit
from uuid import uuid4

import psycopg
import pytest

from development.embedded import private_servers
from development.private import private_folder
from lab.stack.stack import Stack
from lab.tests.composed import Answer, ask
from lab.tests.managed import manage
from shop.tests.processes import wait_for

pytestmark = pytest.mark.long

BOUNDS = {"DB_COMMIT_SECONDS": "1", "PGOPTIONS": "-c lock_timeout=1s", "WEB_CONCURRENCY": "1"}
WAITING = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep'"


class Buyer:
    """A signed-in buyer, at a sale of a shop on a server that can be told to wait."""

    def __init__(self, shop: str, database: str) -> None:
        self._port, self._database = urlsplit(shop).port or 0, database
        terms = {"stock": 10, "limit": 5}
        self.sale = ask(self._port, "POST", "/api/v1/demo/sales", terms).body["sale"]
        made = ask(self._port, "POST", "/api/v1/demo/buyers", {"count": 1})
        [self._token] = made.body["tokens"]

    def ask(self, method: str, path: str, body: object = None, **headers: str) -> Answer:
        """Send a request in the buyer's name."""
        path = f"/api/v1/{path}"
        headers["Authorization"] = f"Bearer {self._token}"
        return ask(self._port, method, path, body, **headers)

    def buy(self, key: str) -> Answer:
        """Buy one unit."""
        named = {"Idempotency-Key": key}
        return self.ask("POST", f"sales/{self.sale}/orders", {"quantity": 1}, **named)

    def sql(self, statement: str) -> object:
        """Return the one value of a statement."""
        with psycopg.connect(self._database, autocommit=True) as connection:
            row = connection.execute(statement.encode()).fetchone()
        return row[0] if row else None

    @contextmanager
    def without_standby(self) -> Iterator[None]:
        """Let every commit wait for a standby that does not exist."""
        self._confirm_with("nobody")
        try:
            yield
        finally:
            self._confirm_with("")
        wait_for(lambda: self.sql(WAITING) == 0)

    def _confirm_with(self, standby: str) -> None:
        with psycopg.connect(self._database, autocommit=True) as connection:
            connection.execute(f"ALTER SYSTEM SET synchronous_standby_names = '{standby}'".encode())
            connection.execute("SELECT pg_reload_conf()")
        wait_for(lambda: self.sql("SHOW synchronous_standby_names") == standby)


@pytest.fixture(scope="module")
def buyer() -> Iterator[Buyer]:
    with private_servers(durable=False) as servers, private_folder() as folder:
        manage(servers.urls, "migrate", "--verbosity", "0")
        with Stack(folder / "shop", servers.urls, extra=BOUNDS) as stack:
            stack.start("psp", "web")
            yield Buyer(stack.url, servers.urls.database)


def said(answer: Answer) -> tuple[int, str]:
    return answer.status, answer.body["code"]


def test_a_purchase_that_waits_for_a_standby_is_unknown_and_its_key_finds_the_order(buyer):
    key = str(uuid4())
    with buyer.without_standby():
        assert said(buyer.buy(key)) == (503, "outcome_unknown")
        assert buyer.sql(WAITING) == 1, "the first attempt is undecided, and its retries wait"
        again = buyer.buy(key)
        assert said(again) in {(503, "outcome_unknown"), (503, "busy")}
    found = buyer.buy(key)
    assert (found.status, found.body["quantity"]) == (200, 1)
    [before, after] = [buyer.buy(each) for each in (key, str(uuid4()))]
    assert before.body == found.body
    assert (after.status, buyer.sql("SELECT count(*) FROM shop_order")) == (201, 2)


def test_a_cancellation_that_waits_for_a_standby_is_unknown_and_the_order_tells_later(buyer):
    order = buyer.buy(str(uuid4())).body["id"]
    with buyer.without_standby():
        assert said(buyer.ask("POST", f"orders/{order}/cancel")) == (503, "outcome_unknown")
        assert buyer.ask("GET", f"orders/{order}").body["status"] == "awaiting_payment"
    assert buyer.ask("GET", f"orders/{order}").body["status"] == "cancelled"
