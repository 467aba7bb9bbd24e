"""An item's row is locked for as few messages to the database as possible: they are counted."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

import pytest
from django.db import connection, transaction
from psycopg.pq import Trace

from inventory import services
from inventory.models import Reservation
from inventory.outcomes import PurchaseTicket
from inventory.selling import batch
from inventory.selling.cart import line_keys, reserve_many
from inventory.selling.hint import hint
from inventory.tests.helpers import (
    at_once,
    book,
    new_purchase,
    open_nothing,
    outsider,
    reserved,
    sell,
)

pytestmark = pytest.mark.django_db(transaction=True)

LOCKS_ITEMS = ("FROM inventory_item", "UPDATE inventory_item", '"inventory_item"')
"""What only a message contains that locks items or changes them."""

MESSAGE = re.compile(r"^([FB])\t\d+\t(.*?)(?=^[FB]\t|\Z)", re.DOTALL | re.MULTILINE)
"""Of libpq's trace: from the front end or the back end, and the text, which may have lines."""


@contextmanager
def sent(to: Path) -> Iterator[list[str]]:
    """Collect the messages that this thread's connection sends."""
    messages: list[str] = []
    connection.ensure_connection()
    pgconn = connection.connection.pgconn
    with to.open("wb") as file:
        pgconn.trace(file.fileno())
        pgconn.set_trace_flags(Trace.SUPPRESS_TIMESTAMPS)
        try:
            yield messages
        finally:
            pgconn.untrace()
    messages += [text for who, text in MESSAGE.findall(to.read_text()) if who == "F"]


def until_the_commit(messages: Sequence[str]) -> list[str]:
    """Return the messages from the first that locks an item to the end of the transaction."""
    first = next(n for n, text in enumerate(messages) if any(each in text for each in LOCKS_ITEMS))
    last = next(n for n, text in enumerate(messages) if "COMMIT" in text)
    return list(messages[first : last + 1])


def reserve(item: int, buyer: int, quantity: int = 1) -> int:
    pk: int = sell(new_purchase(item, buyer, quantity)).reservation
    return pk


def release(reservations: Sequence[int], **how: object) -> list[services.Released]:
    """Release; the shop's part is three round trips."""
    with services.releasing(reservations, **how) as released:  # type: ignore[arg-type]
        for _ in range(3):
            Reservation.objects.count()
    return released


def test_a_cart_locks_its_items_in_the_message_that_commits(stock, tmp_path, monkeypatch):
    # This thread keeps the connection that is traced.
    monkeypatch.setattr("inventory.selling.cart.lend_connections", lambda: None)
    items = [stock(9), stock(9), stock(9)]
    keys = line_keys(uuid4(), 3)
    lines = [new_purchase(item, 1, key=key) for item, key in zip(items, keys, strict=True)]
    with sent(tmp_path / "trace") as messages:
        answer = reserve_many(lines, open_nothing)
    assert isinstance(answer, list)
    [*before, last] = messages
    assert ("UPDATE inventory_item" in last, "COMMIT" in last) == (True, True)
    assert not [each for each in before if "FOR NO KEY UPDATE" in each]
    assert [book(item).available for item in items] == [8, 8, 8]


@pytest.mark.parametrize("number", [1, 30])
def test_purchases_are_sold_in_three_messages_of_which_the_last_locks(number, stock, tmp_path):
    items = [stock(9) for _ in range(number)]
    tickets = [PurchaseTicket(new_purchase(item)) for item in items for _ in range(2)]
    with sent(tmp_path / "trace") as messages:
        batch.sell(tickets, open_nothing)
    [begin, look, last] = messages
    assert ("BEGIN" in begin, "nextval" in look) == (True, True)
    assert "FOR NO KEY UPDATE" not in look
    assert ("UPDATE inventory_item" in last, "COMMIT" in last) == (True, True)
    assert [book(item).available for item in items] == [7] * number


@pytest.mark.parametrize("how", [{}, {"units": 1}, {"written_off": "all"}], ids=str)
def test_a_release_locks_its_items_in_the_message_that_commits(how, stock, tmp_path):
    items = [stock(9), stock(9)]
    mine = [reserve(items[n % 2], n, 2) for n in range(1, 5)]
    if how.get("written_off"):
        how = {"written_off": mine}
    with sent(tmp_path / "trace") as messages:
        assert len(release(mine, **how)) == 4
    assert len(messages) >= 5
    assert len(until_the_commit(messages)) == 1
    assert [book(item).available for item in items] == {
        "units": [7, 7],
        "written_off": [5, 5],
        "": [9, 9],
    }[next(iter(how), "")]


def test_a_release_of_a_sold_out_item_is_announced_before_its_commit(stock, tmp_path, monkeypatch):
    """No buyer may buy the unit while another process still refuses on the older hint."""
    item = stock(1)
    mine = reserve(item, 1)
    seen = []
    announce = hint().announce

    def announced(of, level):
        # Another connection sees what is committed.
        [available] = at_once([lambda: book(of).available])
        seen.append((of, level.available, available))
        announce(of, level)

    monkeypatch.setattr(hint(), "announce", announced)
    with sent(tmp_path / "trace") as messages:
        release([mine])
    assert seen == [(item, 1, 0)]
    # The message that commits was refused; the next one waits for the announcement.
    assert [("SAVEPOINT release" in each, "COMMIT" in each) for each in messages[-4:]] == [
        (True, True),
        (True, False),
        (False, False),
        (False, True),
    ]
    level = hint().read(item)
    assert level is not None
    assert (book(item).available, level.available) == (1, 1)


def test_a_release_inside_another_transaction_ends_with_it(stock):
    item = stock(2)
    mine = reserve(item, 1)
    with transaction.atomic():
        release([mine])
        transaction.set_rollback(True)
    assert (book(item).available, book(item).held) == (1, 1)
    with transaction.atomic():
        release([mine])
    assert book(item).available == 2


@pytest.mark.django_db
def test_a_purchase_in_a_tests_transaction_is_rolled_back_with_it(stock):
    """Projects test their shops so, with Django's `TestCase`."""
    item = stock(9)
    sell(new_purchase(item, 1))
    assert reserved(item) == 1
    with outsider() as session:
        found = session.execute("SELECT count(*) FROM inventory_item").fetchone()
    assert found == (0,)
