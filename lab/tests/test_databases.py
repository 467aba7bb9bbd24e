"""Items on two databases, and a primary whose synchronous standby never comes.

Two databases are the layout of docs/scaling.md: a complete shop per database, ids that are even in
one and odd in the other, and the same accounts in both. There, every constraint of an item holds.

A commit that waits for a standby returns only when that has it, and no time-out of the server ends
the wait: a write is answered, and its truth found later.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from itertools import islice
from uuid import uuid4

import psycopg
import pytest

from development.embedded import EmbeddedServers, ServerUrls, private_servers
from development.leftovers import private_folder
from lab.bench import client
from lab.bench.run import purchases
from lab.stack.stack import Stack
from lab.tests.whole_shop import Answer, ask, buy, manage, new_buyers, new_sale, whole_shop
from shop.tests.processes import wait_for

pytestmark = [pytest.mark.long, pytest.mark.timeout(600)]

STOCK = 30

# As docs/scaling.md gives it; database 0 gets even ids, database 1 odd ones.
INTERLEAVE = """
DO $$ DECLARE name text; BEGIN
    FOR name IN SELECT format('%I.%I', schemaname, sequencename) FROM pg_sequences LOOP
        EXECUTE format('ALTER SEQUENCE %s INCREMENT BY 2', name);
        PERFORM setval(name::regclass, 1000 + {number}, false);
    END LOOP;
END $$
"""


def databases(servers: EmbeddedServers) -> list[ServerUrls]:
    """Return two databases with the shop's tables, and Redis databases of their own."""
    first = servers.urls
    address, _, _ = first.database.rpartition("/")
    redis, _, _ = first.redis.rpartition("/")
    with psycopg.connect(f"{address}/postgres", autocommit=True) as connection:
        connection.execute("CREATE DATABASE second")
    second = replace(first, database=f"{address}/second", redis=f"{redis}/2", broker=f"{redis}/3")
    for number, urls in enumerate((first, second)):
        manage(urls, "migrate", "--verbosity", "0")
        with psycopg.connect(urls.database) as connection:
            connection.execute(INTERLEAVE.format(number=number).encode())
    return [first, second]


def copy_accounts(here: ServerUrls, there: ServerUrls) -> None:
    with (
        psycopg.connect(here.database) as one,
        psycopg.connect(there.database) as other,
        one.cursor().copy("COPY accounts_user TO STDOUT") as rows,
        other.cursor().copy("COPY accounts_user FROM STDIN") as copied,
    ):
        for row in rows:
            copied.write(row)


def orders(urls: ServerUrls) -> set[int]:
    with psycopg.connect(urls.database) as connection:
        return {row[0] for row in connection.execute("SELECT id FROM shop_order")}


def test_items_on_two_databases_sell_exactly_their_stock() -> None:
    with (
        private_servers(durable=False) as servers,
        private_folder() as folder,
        ExitStack() as cleanup,
    ):
        urls = databases(servers)
        stacks = [Stack(folder / f"shop{number}", each) for number, each in enumerate(urls)]
        for stack in stacks:
            cleanup.enter_context(stack).start("psp", "web")
        ports = [stack.port for stack in stacks]
        tokens = new_buyers(ports[0], 6)
        copy_accounts(*urls)
        sales = [new_sale(port, stock=STOCK, limit=STOCK) for port in ports]
        assert [sale % 2 for sale in sales] == [0, 1]
        # The same buyer and key in two databases: two purchases, for the key is unique in each.
        token, key = tokens[0], str(uuid4())
        for status in (201, 200):
            for port, sale in zip(ports, sales, strict=True):
                assert buy(port, sale, token, key).status == status
        for port, sale in zip(ports, sales, strict=True):
            calls = islice(purchases([sale], tokens), 3 * STOCK)
            rush = client.run("127.0.0.1", port, calls, connections=8)
            assert (rush.statuses, rush.errors) == ({201: STOCK - 1, 409: 2 * STOCK + 1}, 0)
        # A sale is unknown to the other database.
        assert ask(ports[1], "GET", f"/api/v1/sales/{sales[0]}").status == 404
        numbers = [orders(url) for url in urls]
        assert [len(number) for number in numbers] == [STOCK, STOCK]
        assert [{order % 2 for order in number} for number in numbers] == [{0}, {1}]
        for each, stack, sale in zip(urls, stacks, sales, strict=True):
            manage(each, "audit", "--sale", str(sale), PSP_URL=stack.psp_url)


BOUNDS = {"DB_COMMIT_SECONDS": "1", "PGOPTIONS": "-c lock_timeout=1s", "WEB_CONCURRENCY": "1"}
WAITING = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep'"


class Buyer:
    """A signed-in buyer, at a sale of a shop whose server can be made to wait."""

    def __init__(self, shop: Stack) -> None:
        self._port, self._database = shop.port, shop.urls.database
        self._sale = new_sale(self._port, stock=10, limit=5)
        [self._token] = new_buyers(self._port, 1)

    def ask(self, method: str, path: str) -> Answer:
        """Send a request in the buyer's name."""
        return ask(self._port, method, f"/api/v1/{path}", Authorization=f"Bearer {self._token}")

    def buy(self, key: str) -> Answer:
        """Buy one unit."""
        return buy(self._port, self._sale, self._token, key)

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
    with whole_shop(**BOUNDS) as stack:
        yield Buyer(stack)


def said(answer: Answer) -> tuple[int, str]:
    return answer.status, answer.body["code"]


def test_purchase_without_a_standby_is_unknown_until_repeated(buyer):
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


def test_cancellation_without_a_standby_is_unknown(buyer):
    order = buyer.buy(str(uuid4())).body["id"]
    with buyer.without_standby():
        assert said(buyer.ask("POST", f"orders/{order}/cancel")) == (503, "outcome_unknown")
        assert buyer.ask("GET", f"orders/{order}").body["status"] == "awaiting_payment"
    assert buyer.ask("GET", f"orders/{order}").body["status"] == "cancelled"
