"""A backup during a rush, the loss of the database, and its restore to a point of that rush."""

from __future__ import annotations

import os
import shutil
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

import psycopg
import pytest
import redis

from development.embedded import EmbeddedServers, private_servers
from development.folder import make_folder
from development.leftovers import private_folder
from development.servers import SYSTEM_USER, postgres_programs
from lab.stack.stack import Stack
from lab.tests.whole_shop import Answer, buy, manage, new_buyers, new_sale
from shop.tests.processes import wait_for

pytestmark = [pytest.mark.long, pytest.mark.nightly, pytest.mark.timeout(600)]

SHOP = ("psp", "web")


class Buyers:
    """Purchases over HTTP, and the key of every order that was confirmed."""

    def __init__(self, port: int) -> None:
        self.port, self.tokens = port, new_buyers(port, 5)
        self.orders: dict[str, tuple[str, int]] = {}
        """By key: the buyer's token and the order's id."""

    def buy(self, sale: int, token: str, key: str) -> Answer:
        answer = buy(self.port, sale, token, key)
        if answer.status == 201:
            self.orders[key] = token, answer.body["id"]
        return answer

    def buy_one(self, sale: int) -> str:
        key = str(uuid4())
        assert self.buy(sale, self.tokens[-1], key).status == 201
        return key

    @contextmanager
    def rush(self, sale: int) -> Iterator[None]:
        """Buy without a pause inside the block."""
        over = threading.Event()

        def buy_on(token: str) -> None:
            while not over.is_set():
                self.buy(sale, token, str(uuid4()))

        threads = [threading.Thread(target=buy_on, args=[token]) for token in self.tokens[:-1]]
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            over.set()
            for thread in threads:
                thread.join()

    def wait_for_more(self) -> None:
        wanted = len(self.orders) + 20
        wait_for(lambda: len(self.orders) >= wanted, 120)


def test_restore_to_a_point_survives_newer_state_in_redis() -> None:
    with private_servers(durable=False) as servers, private_folder() as folder:
        database, urls = Archived(servers, folder), servers.urls
        manage(urls, "migrate", "--verbosity", "0")
        stack = Stack(folder / "shop", urls)
        with stack:
            stack.start(*SHOP)
            buyers = Buyers(stack.port)
            large, small = (
                new_sale(stack.port, stock=stock, limit=stock) for stock in (1_000_000, 3)
            )
            first = buyers.buy_one(small)
            with buyers.rush(large):
                buyers.wait_for_more()
                database.back_up()
                buyers.wait_for_more()
                kept = dict(buyers.orders)
                database.sql("SELECT pg_create_restore_point('before_the_mistake')")
            under_way = set(buyers.orders) - set(kept)
            # Now Redis learns more than the restored database will know: a later lock holder's
            # token, levels with later numbers, that the small sale has sold out, tasks for orders.
            lost = [buyers.buy_one(small), buyers.buy_one(small), buyers.buy_one(large)]
            assert buyers.buy(small, buyers.tokens[0], str(uuid4())).status == 409
        database.archive_all()
        database.destroy()
        database.restore("before_the_mistake")

        ids = {order for (order,) in database.sql("SELECT id FROM shop_order")}
        assert {order for _, order in kept.values()} <= ids
        assert not {buyers.orders[key][1] for key in lost} & ids
        # Each of these was committed on one side of the point or the other.
        assert len(ids) <= len(kept) + len(under_way)

        with stack:
            manage(urls, "after_restore")
            stack.start(*SHOP)
            token, order = kept[first]
            again = buyers.buy(small, token, first)
            assert (again.status, again.body["id"]) == (200, order)
            assert buyers.buy(small, token, lost[0]).status == 201
            # Redis may also be emptied: the lock's tokens go on from its clock.
            redis.Redis.from_url(urls.redis).flushall()
            assert buyers.buy(small, token, lost[1]).status == 201
            assert buyers.buy(small, token, str(uuid4())).status == 409
            assert buyers.buy(large, token, lost[2]).status == 201
            new = {buyers.orders[key][1] for key in lost}
            assert min(new) > max(order for _, order in kept.values()) + 1_000_000
            stack.stop()
            stack.start(*SHOP, "mail", "celery")
            manage(urls, "audit", "--repair", PSP_URL=stack.psp_url)


ACCOUNT = SYSTEM_USER if os.geteuid() == 0 else None


class Archived:
    """The database server of `servers`, restarted with an archive in `folder`."""

    def __init__(self, servers: EmbeddedServers, folder: Path) -> None:
        self.servers = servers
        self.data = servers.postgres.data
        self.archive, self.base = self._own(folder / "archive"), self._own(folder / "base")
        self.sql("ALTER SYSTEM SET archive_mode = on")
        copy = f"test ! -f {self.archive}/%f && cp %p {self.archive}/%f"
        self.sql(f"ALTER SYSTEM SET archive_command = '{copy}'")
        self.stop()
        self.start()

    def back_up(self) -> None:
        """Take a base backup of the running server."""
        words = ["--pgdata", self.base, "--checkpoint=fast", "--wal-method=stream"]
        words += ["--dbname", self.servers.urls.database.rpartition("/")[0] + "/postgres"]
        self._run(postgres_programs() / "pg_basebackup", *words)
        self._run(postgres_programs() / "pg_verifybackup", "--quiet", self.base)

    def archive_all(self) -> None:
        """Return when all WAL so far is in the archive."""
        [(last,)] = self.sql("SELECT pg_walfile_name(pg_switch_wal())")
        wait_for((self.archive / str(last)).exists, 60)

    def destroy(self) -> None:
        """Stop the server and delete its data."""
        self.stop()
        shutil.rmtree(self.data)

    def restore(self, point: str) -> None:
        """Start from the base backup and replay the archive up to `point`."""
        shutil.copytree(self.base, self.data)
        self.data.chmod(0o700)  # or the server refuses to start
        (self.data / "recovery.signal").touch()
        with (self.data / "postgresql.auto.conf").open("a") as file:
            file.write(
                f"restore_command = 'cp {self.archive}/%f %p'\n"
                f"recovery_target_name = '{point}'\n"
                "recovery_target_action = 'promote'\n"
            )
        self._hand_over(self.data, *self.data.rglob("*"))
        self.start()
        wait_for(lambda: self.sql("SELECT pg_is_in_recovery()") == [(False,)], 120)

    def start(self) -> None:
        """Start the server; return when it answers."""
        supervisor = self.servers.supervisor
        supervisor.start_program("postgres")
        supervisor.wait_until("postgres", self.servers.postgres.answers, 120)

    def stop(self) -> None:
        """Stop the server."""
        self.servers.supervisor.stop_program("postgres")

    def sql(self, query: str) -> list[tuple[object, ...]]:
        """Return a query's rows, none for a statement without."""
        with psycopg.connect(self.servers.urls.database, autocommit=True) as connection:
            cursor = connection.execute(query.encode())
            return cursor.fetchall() if cursor.description else []

    def _own(self, folder: Path) -> Path:
        make_folder(folder)
        self._hand_over(folder)
        return folder

    def _hand_over(self, *paths: Path) -> None:
        for path in paths:
            if ACCOUNT:
                shutil.chown(path, ACCOUNT, ACCOUNT)

    def _run(self, *words: object) -> None:
        subprocess.run(
            [str(word) for word in words],
            user=ACCOUNT,
            group=ACCOUNT,
            cwd=self.base,
            check=True,
            timeout=120,
        )
