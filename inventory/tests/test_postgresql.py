"""`inventory.postgresql`: no request starts on a connection that the server has closed."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, LiteralString

import psycopg
import pytest
from django.db import (
    DataError,
    Error,
    IntegrityError,
    OperationalError,
    connection,
    transaction,
)
from psycopg_pool import PoolTimeout

from inventory import services
from inventory.models import Item, Reservation
from inventory.outcomes import Busy, Granted, OutcomeUnknown, Purchase
from inventory.postgresql.base import (
    OPTION,
    DatabaseWrapper,
    Share,
    borrowing_from,
    is_usable,
    lend_connections,
)
from inventory.selling.commit import ConditionFailed, execute_and_commit
from inventory.tests.helpers import (
    END_ALL,
    TIMEOUT,
    at_once,
    book,
    counted,
    in_thread,
    new_purchase,
    on_this_thread,
    open_nothing,
    outsider,
    pool_of_16,
    read_only_database,
    release,
    reserved,
    sell,
)
from locking.tests.helpers import eventually

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def database(monkeypatch: pytest.MonkeyPatch) -> Iterator[DatabaseWrapper]:
    """The database with a pool of 16."""
    with pool_of_16(monkeypatch) as found:
        yield found


POOLED = 6
"""Connections that are idle in the pool when the server ends them."""


@pytest.fixture
def dead_pool() -> None:
    """Fill this process's pool, then end all its connections on the server."""
    everyone_has_one = threading.Barrier(POOLED)

    def hold() -> None:
        with connection.cursor():
            everyone_has_one.wait(TIMEOUT)

    assert at_once([hold] * POOLED) == [None] * POOLED
    connection.close()
    with outsider() as session:
        ended = session.execute(END_ALL).fetchone()
    assert ended is not None
    assert ended[0] >= POOLED


@pytest.mark.parametrize("checked", [True, False], ids=["checked", "negative control"])
def test_connections_ended_by_the_server_fail_no_request(checked, dead_pool, monkeypatch):
    if not checked:
        monkeypatch.setattr("inventory.postgresql.base.is_usable", lambda _, **__: True)
    before, failed = counted("inventory_connections_dead_total"), 0
    for _ in range(2 * POOLED):
        try:
            on_this_thread(Item.objects.first)
        except Error:
            failed += 1
    if checked:
        assert failed == 0
        assert counted("inventory_connections_dead_total") >= before + POOLED
    else:
        assert failed >= POOLED


def test_connection_with_a_notice_from_the_server_is_alive():
    with outsider() as session, outsider() as other:
        session.execute("LISTEN messages")
        other.execute("NOTIFY messages")
        assert is_usable(session, for_writes=True)
        assert session.execute("SELECT 1").fetchone() == (1,)


def test_connection_is_lent_only_outside_a_transaction():
    for _ in range(2):
        Item.objects.first()
        assert connection.connection is not None
        lend_connections()
        assert connection.connection is None
    with transaction.atomic():
        Item.objects.first()
        lend_connections()
        assert connection.connection is not None
    lend_connections()
    assert connection.connection is None


# --- sessions that live and are of no use -------------------------------------------------------


@pytest.fixture
def one_session(database: DatabaseWrapper) -> Callable[[], int]:
    """Return a function that names the session of the next request; the pool has one at a time."""
    database.settings_dict["OPTIONS"]["pool"]["max_size"] = 1

    def backend() -> int:
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_backend_pid()")
            [(pid,)] = cursor.fetchall()
        connection.close()
        return int(pid)

    return backend


def run(statement: LiteralString) -> None:
    """Execute a statement in a request of its own."""
    try:
        with connection.cursor() as cursor:
            cursor.execute(statement)
    finally:
        connection.close()


def test_pool_discards_a_session_that_is_read_only(stock, one_session):
    item, before = stock(1), counted("inventory_connections_dead_total")
    first = one_session()
    run("SET default_transaction_read_only = on")  # as the database's own setting may have been
    assert isinstance(sell(new_purchase(item)), Granted)
    assert one_session() != first
    assert counted("inventory_connections_dead_total") == before + 1


def test_pool_keeps_a_read_only_session_that_is_wanted(one_session):
    connection.settings_dict["OPTIONS"]["target_session_attrs"] = "any"
    try:
        first = one_session()
        run("SET default_transaction_read_only = on")
        assert one_session() == first
    finally:
        del connection.settings_dict["OPTIONS"]["target_session_attrs"]


def test_pool_serves_soon_after_the_database_was_read_only(stock, database):
    """As after a fail-over behind a fixed address, or maintenance."""
    item = stock(3)
    [pool] = database.pools()
    pool.timeout = pool.reconnect_timeout = 0.2
    with read_only_database(), pytest.raises(Busy):
        sell(new_purchase(item))
    pool.timeout = TIMEOUT
    assert isinstance(sell(new_purchase(item)), Granted)


def test_pool_discards_a_session_with_a_bad_setting(one_session):
    first, before = one_session(), counted("inventory_connections_discarded_total")
    run("SET statement_timeout = '1ms'")
    with pytest.raises(OperationalError):
        run("SELECT pg_sleep(60)")
    assert one_session() != first
    run("SELECT pg_sleep(0.01)")
    assert counted("inventory_connections_discarded_total") == before + 1


@pytest.mark.parametrize(
    ("statement", "error"),
    [
        ("SELECT 1 / 0", DataError),
        ("INSERT INTO inventory_item (name, total, available) VALUES ('', 1, -1)", IntegrityError),
    ],
)
def test_pool_keeps_a_session_that_refused_a_statement(statement, error, one_session):
    first = one_session()
    with pytest.raises(error):
        run(statement)
    assert one_session() == first


def test_pool_keeps_a_session_in_which_a_condition_failed(one_session):
    first = one_session()
    with pytest.raises(ConditionFailed), transaction.atomic():
        execute_and_commit([("SELECT inventory_require(false)", {})])
    connection.close()
    assert one_session() == first


def test_write_to_a_read_only_server_is_an_outage(stock):
    with transaction.atomic():
        connection.cursor().execute("SET TRANSACTION READ ONLY")
        with pytest.raises(OperationalError, match="read-only"), transaction.atomic():
            stock(1)


# --- shares of the pool -------------------------------------------------------------------------


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
def test_share_is_a_part_of_the_pool_of_at_least_one(
    pool: Any, small: tuple[int, int], large: tuple[int, int]
) -> None:
    found = [share.options(pool) for share in (SMALL, LARGE)]
    assert [(options["min_size"], options["max_size"]) for options in found] == [small, large]


@pytest.mark.parametrize(("pool", "seconds"), [({"timeout": 5}, 10.0), ({}, 60.0), (True, 60.0)])
def test_share_waits_as_many_times_as_its_patience(pool: Any, seconds: float) -> None:
    assert Share("patient", 2 / 16, patience=2.0).options(pool)["timeout"] == seconds


Borrow = Callable[[Share | None, int], list[str]]


@pytest.fixture
def borrow(database: DatabaseWrapper) -> Iterator[Borrow]:
    """Return a function by which many threads borrow a connection each and keep it.

    It returns "lent" for each that got one, else the name of the error.
    """
    go_on = threading.Event()

    def one(share: Share | None, results: queue.SimpleQueue[str]) -> None:
        borrowing_from.set(share)
        try:
            connection.ensure_connection()
            results.put("lent")
            go_on.wait(TIMEOUT)
        except OperationalError as error:
            results.put(type(error.__cause__).__name__)
        finally:
            connection.close()
            borrowing_from.set(None)

    def many(share: Share | None, count: int) -> list[str]:
        results: queue.SimpleQueue[str] = queue.SimpleQueue()
        for _ in range(count):
            threads.submit(one, share, results)
        return sorted(results.get(timeout=TIMEOUT) for _ in range(count))

    with ThreadPoolExecutor(40) as threads:
        yield many
        go_on.set()


def test_share_that_is_used_up_leaves_the_others_free(
    database: DatabaseWrapper, borrow: Borrow
) -> None:
    for share, size in ((SMALL, 2), (LARGE, 6), (None, 16)):
        assert borrow(share, size) == size * ["lent"]
    for pool in database.pools():
        pool.timeout = 0.1
    for share in (SMALL, LARGE, None):
        assert borrow(share, 2) == 2 * [PoolTimeout.__name__]


def test_connection_goes_back_to_its_own_share(borrow: Borrow) -> None:
    def borrow_and_change() -> None:
        borrowing_from.set(SMALL)
        connection.ensure_connection()
        borrowing_from.set(LARGE)
        connection.close()
        borrowing_from.set(None)

    with ThreadPoolExecutor(1) as pool:
        for _ in range(10):
            pool.submit(borrow_and_change).result(TIMEOUT)
    assert borrow(SMALL, 2) == 2 * ["lent"]
    assert borrow(LARGE, 6) == 6 * ["lent"]


def test_pools_of_all_shares_are_closed_together(database: DatabaseWrapper) -> None:
    for share in (SMALL, LARGE, None):
        borrowing_from.set(share)
        database.ensure_connection()
        database.close()
    pools = database.pools()
    assert sorted(pool.max_size for pool in pools) == [2, 6, 16]
    database.close_pool()
    assert [pool.closed for pool in pools] == [True] * 3
    assert database.pools() == []


def test_shares_need_a_pool(database: DatabaseWrapper) -> None:
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


# --- a commit that waits is not waited for forever ----------------------------------------------


WAIT_AT_COMMIT = """
CREATE FUNCTION wait_at_commit() RETURNS trigger LANGUAGE plpgsql SET lock_timeout = 0 AS $$
BEGIN
    PERFORM pg_advisory_xact_lock_shared(4711);
    RETURN NULL;
END $$;
CREATE CONSTRAINT TRIGGER wait_at_commit AFTER INSERT OR UPDATE ON inventory_reservation
DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION wait_at_commit()
"""
WAIT_NO_MORE = "DROP FUNCTION wait_at_commit CASCADE"

BEHIND_A_ROW = """
SELECT pid FROM pg_stat_activity
WHERE datname = current_database() AND wait_event IN ('transactionid', 'tuple')
"""

Standby = Callable[[], None]


@pytest.fixture
def standby(monkeypatch: pytest.MonkeyPatch) -> Iterator[Standby]:
    """Let commits of reservations wait until this is called, and be given up after 0.2 s."""
    monkeypatch.setitem(connection.settings_dict["OPTIONS"], OPTION, 0.2)
    with outsider() as session:

        def come() -> None:
            session.execute("SELECT pg_advisory_unlock_all()")

        session.execute(WAIT_AT_COMMIT)
        session.execute("SELECT pg_advisory_lock(4711)")
        yield come
        come()
        session.execute(WAIT_NO_MORE)


def waiting_behind_a_row(session: psycopg.Connection) -> list[tuple[int]]:
    return session.execute(BEHIND_A_ROW).fetchall()


def sell_as_a_cart(purchase: Purchase) -> Granted:
    other = new_purchase(services.stock("case", 5).pk, purchase.buyer)
    answer = services.reserve_many([purchase, other], open_nothing)
    assert isinstance(answer, list)
    return answer[0]


@pytest.mark.parametrize("sell", [sell, sell_as_a_cart])
def test_commit_timeout_is_looked_up_behind_the_row_lock(stock, standby, sell):
    item, before = stock(5), counted("inventory_commit_unknown_total")
    with outsider() as session, in_thread(partial(sell, new_purchase(item))) as answer:
        eventually(lambda: waiting_behind_a_row(session))
        assert counted("inventory_commit_unknown_total") == before + 1
        standby()
        granted = answer()
    assert isinstance(granted, Granted)
    assert (granted.replayed, book(item).held) == (True, 1)


def test_commit_timeout_is_unknown_until_the_key_is_repeated(stock, standby):
    item = stock(5)
    purchase = new_purchase(item)
    with outsider() as session, in_thread(partial(sell, purchase)) as answer:
        eventually(lambda: waiting_behind_a_row(session))
        # As `lock_timeout` does after a while.
        [(pid,)] = waiting_behind_a_row(session)
        session.execute("SELECT pg_cancel_backend(%s)", [pid])
        with pytest.raises(OutcomeUnknown):
            answer()
    assert reserved(item) == 0, "it is undecided"
    standby()
    eventually(lambda: reserved(item) == 1)
    assert isinstance(sell(purchase), Granted)
    assert book(item).held == 1


def test_release_whose_commit_times_out_is_found_later(stock, standby):
    standby()
    item = stock(5)
    granted = sell(new_purchase(item))
    with outsider() as session:
        session.execute("SELECT pg_advisory_lock(4711)")
        with pytest.raises(OperationalError, match=r"no answer to the commit within 0\.2 s"):
            release(granted.reservation)
        assert Reservation.objects.get().state == Reservation.State.HELD
    eventually(lambda: Reservation.objects.get().state == Reservation.State.RELEASED)
    assert book(item).available == 5
