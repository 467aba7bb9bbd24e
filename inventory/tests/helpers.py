"""Purchases, threads that make them concurrently, and the books afterwards."""

from __future__ import annotations

import itertools
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from datetime import timedelta
from functools import partial
from typing import Any, LiteralString, TypeVar
from uuid import UUID, uuid4

import psycopg
import pytest
from django.db import connection, connections
from django.db.models import Model
from prometheus_client import REGISTRY

from inventory import services
from inventory.audit import Book, audit
from inventory.models import Reservation
from inventory.outcomes import Busy, Cart, CartTicket, Granted, OnGranted, Purchase
from inventory.postgresql.base import DatabaseWrapper
from inventory.selling.queue import only_outcome
from inventory.sql import Statement
from locking.tests.helpers import eventually

T = TypeVar("T")

TIMEOUT = 30.0
"""Seconds that a thread waits for another one before the test fails."""

END_ALL = """
SELECT count(*) FILTER (WHERE pg_terminate_backend(pid, 10000)) FROM pg_stat_activity
WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend'
"""
"""Waits until the processes have ended, and so their sockets are closed."""

_buyers = itertools.count(1_000_001)


def new_purchase(item: int, buyer: int | None = None, quantity: int = 1, **other: Any) -> Purchase:
    """Return a purchase, by default of a new buyer without a limit."""
    buyer = next(_buyers) if buyer is None else buyer
    given = {"scope": item, "key": uuid4(), "limit": 1_000_000, "hold": timedelta(minutes=15)}
    return Purchase(item=item, buyer=buyer, quantity=quantity, **{**given, **other})


def counts() -> Counter[str]:
    """Return the metrics of this process by name, each summed over its labels."""
    found: Counter[str] = Counter()
    for metric in REGISTRY.collect():
        for sample in metric.samples:
            found[sample.name] += sample.value  # type: ignore[assignment]
    return found


def counted(name: str) -> float:
    """Return a metric of this process, summed over its labels."""
    return counts()[name]


@contextmanager
def pool_of_16(monkeypatch: pytest.MonkeyPatch) -> Iterator[DatabaseWrapper]:
    """Give the database a new pool of at most 16 connections inside the block."""
    database = connections["default"]
    assert isinstance(database, DatabaseWrapper)
    options = {"min_size": 1, "max_size": 16, "timeout": TIMEOUT}
    monkeypatch.setitem(database.settings_dict["OPTIONS"], "pool", options)
    database.close_pool()
    yield database
    database.close_pool()


def open_nothing(granted: Sequence[Granted]) -> list[str]:
    """Open nothing: a shop without orders."""
    return [f"opened {grant.reservation}" for grant in granted]


def ticket(*lines: Purchase, on_granted: OnGranted = open_nothing) -> CartTicket:
    """Return the ticket of a purchase, or of a cart of several."""
    return CartTicket(Cart(lines, on_granted))


def insist(call: Callable[[], T]) -> T:
    """Repeat a purchase while the shop is too busy for it, as its API asks of buyers.

    A strategy whose buyers try again on their own may give up on a busy machine.
    """
    while True:
        try:
            return call()
        except Busy:
            time.sleep(0.01)


def sell_by(seller: Any, purchase: Purchase) -> Any:
    """Sell by a seller of one's own, without opening an order."""
    return only_outcome(seller.sell(Cart((purchase,), open_nothing)))


def sell(purchase: Purchase) -> Any:
    """Sell without opening an order."""
    return services.reserve(purchase, open_nothing)


def release(*reservations: int, **how: Any) -> list[services.Released]:
    """Release reservations of a shop without orders; arguments as of `services.releasing`."""
    with services.releasing(reservations, **how) as released:
        pass
    return released


def at_once(calls: Sequence[Callable[[], T]]) -> list[Any]:
    """Make each call on its own thread, all released together; results or errors in order."""
    start = threading.Barrier(len(calls))

    def run(call: Callable[[], T]) -> T:
        start.wait(TIMEOUT)
        return on_this_thread(call)

    with ThreadPoolExecutor(len(calls)) as pool:
        futures = [pool.submit(run, call) for call in calls]
    return [future.exception() or future.result() for future in futures]


def crowd(sell: Callable[[Purchase], T], purchases: Sequence[Purchase], threads: int) -> list[Any]:
    """Make all purchases, that many at a time; return results or errors in their order."""
    with ThreadPoolExecutor(threads) as pool:
        # Each returns its connection, as a request does.
        futures = [pool.submit(on_this_thread, partial(sell, purchase)) for purchase in purchases]
    return [future.exception() or future.result() for future in futures]


def on_this_thread(call: Callable[[], T]) -> T:
    """Make a call and close the connection that it opened."""
    try:
        return call()
    finally:
        connection.close()


@contextmanager
def in_thread(call: Callable[[], T]) -> Iterator[Callable[[], T]]:
    """Make a call in the background; yield a function that waits for its result."""
    with ThreadPoolExecutor(1) as pool:
        future = pool.submit(on_this_thread, call)
        yield lambda: future.result(TIMEOUT)


def kinds(answers: Sequence[object]) -> Counter[str]:
    return Counter(type(answer).__name__ for answer in answers)


def book(item: int) -> Book:
    """Return an item's book, after checking that it balances."""
    found = audit([item])
    assert not found.problems, found.problems
    return found.items[0]


def problems(item: int) -> list[str]:
    return audit([item]).problems


def reserved(item: int) -> int:
    return Reservation.objects.filter(item=item).count()


def keys_of(item: int) -> set[UUID]:
    return set(Reservation.objects.filter(item=item).values_list("key", flat=True))


@contextmanager
def more_fields(model: type[Model], *statements: Statement, **fields: Any) -> Iterator[None]:
    """Give a model more fields, in Python and in the database, as a team's migration does."""
    with ExitStack() as undo:
        for name, field in fields.items():
            field.contribute_to_class(model, name)
            undo.callback(_forget_field, model, field)
            with connection.schema_editor() as editor:
                editor.add_field(model, field)
        for statement in statements:
            statement.forget()
            undo.callback(statement.forget)
        yield


def _forget_field(model: Any, field: Any) -> None:
    with connection.schema_editor() as editor:
        editor.remove_field(model, field)
    model._meta.local_fields.remove(field)
    model._meta._expire_cache()
    model._meta.__dict__.pop("db_returning_fields", None)  # Django keeps it
    delattr(model, field.attname)


def rows(model: Any) -> list[dict[str, Any]]:
    """Return all rows of a model, including fields that only a test has added."""
    return list(model.objects.values())


@contextmanager
def books_not_enforced() -> Iterator[None]:
    """Disable the constraint on the books inside the block."""
    change = "ALTER TABLE inventory_item {} TRIGGER inventory_item_books"
    with connection.cursor() as cursor:
        cursor.execute(change.format("DISABLE"))
    try:
        yield
    finally:
        with connection.cursor() as cursor:
            cursor.execute(change.format("ENABLE"))


@contextmanager
def outsider() -> Iterator[psycopg.Connection]:
    """A connection outside Django, which sees committed data only."""
    # As Django connects, in any project, but with psycopg's own types.
    given = connection.get_connection_params() | {"context": None, "cursor_factory": None}
    with psycopg.connect(**given, autocommit=True) as session:
        # What it holds, it holds for as long as a busy machine needs.
        session.execute("SET idle_in_transaction_session_timeout = 0")
        yield session


@contextmanager
def read_only_database() -> Iterator[None]:
    """Let each new session of the database be read-only, and end the present ones."""
    name = connection.ops.quote_name(connection.settings_dict["NAME"])
    connection.close()
    with outsider() as session:
        session.execute(f"ALTER DATABASE {name} SET default_transaction_read_only = on")
        try:
            session.execute(END_ALL)
            yield
        finally:
            session.execute("SET default_transaction_read_only = off")
            session.execute(f"ALTER DATABASE {name} RESET default_transaction_read_only")


@contextmanager
def locked(table: LiteralString) -> Iterator[None]:
    """Let every query on a table wait."""
    with outsider() as session, session.transaction():
        session.execute(f"LOCK TABLE {table} IN ACCESS EXCLUSIVE MODE")
        yield


def wait_until_blocked(sessions: int) -> None:
    """Wait until that many sessions of this database wait for a PostgreSQL lock."""
    waiting = (
        "SELECT count(*) FROM pg_stat_activity"
        " WHERE datname = current_database() AND wait_event_type = 'Lock'"
    )
    with outsider() as session:
        eventually(lambda: session.execute(waiting).fetchone() == (sessions,))


def sell_in_a_crowd(item: int, units: int, buyers: int, threads: int) -> None:
    """Sell all units to concurrent buyers; every count is exact."""
    purchases = [new_purchase(item) for _ in range(buyers)]
    answers = crowd(lambda purchase: insist(partial(sell, purchase)), purchases, threads)
    assert kinds(answers) == {"Granted": units, "SoldOut": buyers - units}
    assert (book(item).available, book(item).held, reserved(item)) == (0, units, units)
    granted = {answer.purchase.key for answer in answers if isinstance(answer, Granted)}
    assert granted == keys_of(item)
