"""Shares of the pool of connections: how large they are, and that none takes another's."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from django.db import OperationalError, connection
from psycopg_pool import PoolTimeout

from inventory.postgresql.base import DatabaseWrapper
from inventory.postgresql.shares import Share, borrowing_from
from inventory.tests.helpers import TIMEOUT, pool_of_16

SMALL, LARGE = Share("small", 2 / 16), Share("large", 6 / 16)


@pytest.mark.parametrize(
    ("pool", "small", "large"),
    [
        ({"min_size": 1, "max_size": 16}, (1, 2), (1, 6)),
        ({"min_size": 16, "max_size": 16}, (2, 2), (6, 6)),
        ({"min_size": 1, "max_size": 3}, (1, 1), (1, 1)),
        ({"min_size": 0, "max_size": 32}, (0, 4), (0, 12)),
        ({"max_size": 16}, (1, 2), (2, 6)),  # psycopg keeps 4
        ({"min_size": 16, "max_size": None}, (2, 2), (6, 6)),
        (True, (1, 1), (1, 1)),
    ],
)
def test_a_share_is_a_part_of_the_pool_and_at_least_one_connection(
    pool: Any, small: tuple[int, int], large: tuple[int, int]
) -> None:
    found = [share.options(pool) for share in (SMALL, LARGE)]
    assert [(each["min_size"], each["max_size"]) for each in found] == [small, large]


def test_a_share_keeps_the_pools_other_options() -> None:
    assert SMALL.options({"min_size": 1, "max_size": 16, "timeout": 5})["timeout"] == 5


@pytest.fixture
def database(db: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[DatabaseWrapper]:
    """The database with a pool of 16."""
    with pool_of_16(monkeypatch) as found:
        yield found


class Borrowers:
    """Threads that each borrow a connection and keep it."""

    def __init__(self, pool: ThreadPoolExecutor) -> None:
        self._pool = pool
        self.go_on = threading.Event()

    def borrow(self, share: Share | None, count: int) -> list[str]:
        """Return what becomes of so many borrowers at once: who keeps a connection says nothing."""
        told: list[str] = []
        all_told = threading.Semaphore(0)

        def one() -> None:
            borrowing_from.set(share)
            try:
                connection.ensure_connection()
                told.append("lent")
                all_told.release()
                self.go_on.wait(TIMEOUT)
            except OperationalError as error:
                told.append(type(error.__cause__).__name__)
                all_told.release()
            finally:
                connection.close()
                borrowing_from.set(None)

        for _ in range(count):
            self._pool.submit(one)
        for _ in range(count):
            assert all_told.acquire(timeout=TIMEOUT)
        return sorted(told)


@pytest.fixture
def borrowers(database: DatabaseWrapper) -> Iterator[Borrowers]:
    with ThreadPoolExecutor(40) as pool:
        found = Borrowers(pool)
        yield found
        found.go_on.set()


@pytest.mark.django_db(transaction=True)
def test_who_uses_up_a_share_takes_nothing_of_another(
    database: DatabaseWrapper, borrowers: Borrowers
) -> None:
    for share, size in ((SMALL, 2), (LARGE, 6), (None, 16)):
        assert borrowers.borrow(share, size) == size * ["lent"]
    for pool in database.pools():
        pool.timeout = 0.1
    for share in (SMALL, LARGE, None):
        assert borrowers.borrow(share, 2) == 2 * [PoolTimeout.__name__]


@pytest.mark.django_db(transaction=True)
def test_a_connection_goes_back_to_the_share_that_it_came_from(borrowers: Borrowers) -> None:
    def borrow_and_change() -> None:
        borrowing_from.set(SMALL)
        connection.ensure_connection()
        borrowing_from.set(LARGE)
        connection.close()
        borrowing_from.set(None)

    with ThreadPoolExecutor(1) as pool:
        for _ in range(10):
            pool.submit(borrow_and_change).result(TIMEOUT)
    assert borrowers.borrow(SMALL, 2) == 2 * ["lent"]
    assert borrowers.borrow(LARGE, 6) == 6 * ["lent"]


@pytest.mark.django_db(transaction=True)
def test_all_pools_are_closed_together(database: DatabaseWrapper) -> None:
    for share in (SMALL, LARGE, None):
        borrowing_from.set(share)
        database.ensure_connection()
        database.close()
    pools = database.pools()
    assert sorted(pool.max_size for pool in pools) == [2, 6, 16]
    database.close_pool()
    assert [pool.closed for pool in pools] == [True] * 3
    assert database.pools() == []


@pytest.mark.django_db(transaction=True)
def test_without_a_pool_there_are_no_shares(database: DatabaseWrapper) -> None:
    own = database.copy()
    own.settings_dict["OPTIONS"] = {**own.settings_dict["OPTIONS"], "pool": False}
    borrowing_from.set(SMALL)
    try:
        with own.cursor() as cursor:
            cursor.execute("SELECT 1")
        assert own.pool is None
        assert database.pools() == []
    finally:
        own.close()
        borrowing_from.set(None)
