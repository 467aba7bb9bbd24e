"""A commit that waits, as on a primary without its synchronous standby, is not waited for forever.

A deferred trigger takes the standby's part: it waits in the commit, until a lock is released.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import psycopg
import pytest
from django.db import OperationalError, connection

from inventory import services
from inventory.metrics import metrics
from inventory.models import Reservation
from inventory.outcomes import Granted, OutcomeUnknown, Purchase
from inventory.postgresql.base import OPTION
from inventory.tests.helpers import (
    book,
    in_thread,
    new_purchase,
    open_nothing,
    outsider,
    release,
    reserved,
    sell,
)
from locking.tests.helpers import eventually

pytestmark = pytest.mark.django_db(transaction=True)

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
    [granted] = services.reserve_many([purchase], open_nothing)  # type: ignore[misc]
    return granted


@pytest.mark.parametrize("sell", [sell, sell_as_a_cart])
def test_the_next_attempt_waits_behind_the_row_and_finds_the_purchase(stock, standby, sell):
    item, before = stock(5), metrics.read()["commit_unknown"]
    with outsider() as session, in_thread(partial(sell, new_purchase(item))) as answer:
        eventually(lambda: waiting_behind_a_row(session))
        assert metrics.read()["commit_unknown"] == before + 1
        standby()
        granted = answer()
    assert isinstance(granted, Granted)
    assert (granted.replayed, book(item).held) == (True, 1)


def test_a_purchase_that_cannot_be_looked_up_is_unknown_and_its_key_finds_it_later(stock, standby):
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


def test_a_release_that_is_not_confirmed_fails_and_is_found_later(stock, standby):
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
