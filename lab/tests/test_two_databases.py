"""Items on two databases: every constraint of an item holds there, and ids tell the database.

The layout of docs/scaling.md: a complete shop per database, ids that are even in one and odd in the
other, and the same accounts in both.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import Any
from uuid import uuid4

import psycopg
import pytest

from development.embedded import EmbeddedServers, ServerUrls, private_servers
from development.private import private_folder
from lab.bench import client
from lab.bench.run import purchases
from lab.stack.stack import Stack
from lab.tests.composed import Answer, ask
from lab.tests.managed import manage

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


class Shops:
    """Two shops, and the rule that finds the one of an id."""

    def __init__(self, stacks: list[Stack]) -> None:
        self.stacks = stacks

    def ask(self, sale: int, method: str, path: str, body: object = None, **headers: str) -> Answer:
        return ask(self.stacks[sale % 2].port, method, path, body, **headers)

    def buy(self, sale: int, token: str, key: str) -> Answer:
        headers = {"Authorization": f"Bearer {token}", "Idempotency_Key": key}
        return self.ask(sale, "POST", f"/api/v1/sales/{sale}/orders", {"quantity": 1}, **headers)


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


@contextmanager
def shops(urls: list[ServerUrls]) -> Iterator[Shops]:
    with private_folder() as folder, ExitStack() as cleanup:
        stacks = []
        for number, each in enumerate(urls):
            stack = cleanup.enter_context(Stack(folder / f"shop{number}", each))
            stack.start("psp", "web")
            stacks.append(stack)
        yield Shops(stacks)


def rush(shop: Stack, sale: int, tokens: list[str]) -> dict[int, int]:
    found = client.run(
        "127.0.0.1", shop.port, purchases([sale], tokens), connections=8, count=3 * STOCK
    )
    assert found.errors == 0
    return found.statuses


def orders(urls: ServerUrls) -> set[int]:
    with psycopg.connect(urls.database) as connection:
        return {row[0] for row in connection.execute("SELECT id FROM shop_order")}


def test_items_on_two_databases_sell_exactly_their_stock() -> None:
    with private_servers(durable=False) as servers:
        urls = databases(servers)
        with shops(urls) as found:
            first = found.stacks[0]
            made = ask(first.port, "POST", "/api/v1/demo/buyers", {"count": 6}).body
            tokens: list[str] = made["tokens"]
            copy_accounts(*urls)
            terms: dict[str, Any] = {"stock": STOCK, "limit": STOCK}
            sales = [
                ask(each.port, "POST", "/api/v1/demo/sales", terms).body["sale"]
                for each in found.stacks
            ]
            assert [sale % 2 for sale in sales] == [0, 1]
            # The same buyer and key in two databases: two purchases, for the key is unique in each.
            key = str(uuid4())
            assert [found.buy(sale, tokens[0], key).status for sale in sales] == [201, 201]
            assert [found.buy(sale, tokens[0], key).status for sale in sales] == [200, 200]
            for shop, sale in zip(found.stacks, sales, strict=True):
                assert rush(shop, sale, tokens) == {201: STOCK - 1, 409: 2 * STOCK + 1}
            # A sale is unknown to the other database.
            wrong = ask(found.stacks[1].port, "GET", f"/api/v1/sales/{sales[0]}")
            assert wrong.status == 404
            numbers = [orders(each) for each in urls]
            assert [len(each) for each in numbers] == [STOCK, STOCK]
            assert [{order % 2 for order in each} for each in numbers] == [{0}, {1}]
            for each, stack in zip(urls, found.stacks, strict=True):
                manage(each, "audit", "--sale", str(sales[urls.index(each)]), PSP_URL=stack.psp_url)
