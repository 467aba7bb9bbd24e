"""One retry policy: a transaction known to have written nothing is retried, within a time."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from django.db import IntegrityError, InternalError, OperationalError, connection, transaction
from psycopg.pq import Trace
from psycopg_pool import PoolTimeout

from inventory import services
from inventory.models import Reservation
from inventory.outcomes import (
    Busy,
    Granted,
    LimitReached,
    NoSuchItem,
    NotOpened,
    OutcomeUnknown,
    PurchasesRefused,
    StaleToken,
    line_keys,
)
from inventory.selling import batch, commit, guard
from inventory.selling.commit import (
    Attempts,
    CommitUnknown,
    ConditionFailed,
    execute_and_commit,
)
from inventory.tests.helpers import (
    at_once,
    book,
    counted,
    kinds,
    new_purchase,
    open_nothing,
    outsider,
    reserved,
    sell,
    ticket,
)

pytestmark = pytest.mark.django_db(transaction=True)

RACED = ConditionFailed("another purchase was faster")
AWAY = OperationalError("server closed the connection")
UNKNOWN = CommitUnknown("cut off")
OVERTAKEN = StaleToken("1 is older than 2")


class Clock:
    """A clock that attempts and pauses advance."""

    now = 0.0

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


@pytest.fixture
def clock(monkeypatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(commit, "time", clock)
    return clock


def no_connection() -> OperationalError:
    error = OperationalError("couldn't get a connection")
    error.__cause__ = PoolTimeout()
    return error


def attempts(clock: Clock, seconds: float, *steps: object) -> Callable[[bool], Any]:
    """Return attempts that take some seconds each and end in one step each; the last repeats."""
    left = list(steps)

    def attempt(fenced: bool) -> object:
        clock.sleep(seconds)
        step = left.pop(0) if len(left) > 1 else left[0]
        if isinstance(step, Exception):
            raise step
        return (step, fenced)

    return attempt


def complete(transaction: Callable[[bool], Any]) -> Any:
    """Return what the first attempt returns that completes."""
    attempts = Attempts()
    return attempts.until_done(lambda: transaction(attempts.fenced))


@pytest.mark.parametrize("seconds", [0.01, 60])
@pytest.mark.parametrize("failure", [RACED, AWAY, UNKNOWN, OVERTAKEN])
def test_attempt_is_repeated_after_an_error_that_may_pass(failure, seconds, clock):
    """A purchase whose token is stale tries again without it."""
    fenced = failure is not OVERTAKEN
    assert complete(attempts(clock, seconds, failure, "sold")) == ("sold", fenced)


@pytest.mark.parametrize(
    ("failure", "reason"),
    [
        (RACED, "another purchase was faster"),
        (AWAY, "cannot be reached"),
        (no_connection(), "no database connection became free"),
    ],
)
def test_attempts_that_all_fail_end_busy_with_the_reason(failure, reason, clock):
    with pytest.raises(Busy, match=reason) as busy:
        complete(attempts(clock, 0.1, failure))
    assert busy.value.__cause__ is failure
    assert clock.now < commit.RETRY_FOR + 1


def test_attempt_without_a_free_connection_is_not_repeated(clock):
    with pytest.raises(Busy):
        complete(attempts(clock, 5, no_connection()))
    assert clock.now < 10


@pytest.mark.parametrize("then", [AWAY, UNKNOWN, RACED, Busy("overtaken"), no_connection()])
def test_attempt_after_an_unknown_commit_is_never_busy(then, clock):
    with pytest.raises(OutcomeUnknown):
        complete(attempts(clock, 1, UNKNOWN, then))


@pytest.mark.parametrize("error", [IntegrityError(), InternalError("invalid page")])
def test_attempt_passes_on_its_own_exception(error, clock):
    with pytest.raises(type(error)):
        complete(attempts(clock, 1, AWAY, error))


@pytest.mark.parametrize("error", [NotOpened(), IntegrityError(), NoSuchItem(1), ValueError()])
def test_attempts_refuse_nothing_that_may_still_arrive(error, clock):
    with pytest.raises(OutcomeUnknown) as unknown:
        complete(attempts(clock, 1, CommitUnknown("cut off", locked=False), error))
    assert unknown.value.__cause__ is error


@pytest.mark.parametrize("lines", [1, 2])
def test_decline_after_a_lost_commit_is_unknown(lines, stock, monkeypatch):
    """An operator pauses the sale while the message of the first attempt is on its way."""
    purchases = [new_purchase(stock(5), 1) for _ in range(lines)]
    opened = []

    def lose(statements, *, locked=True):
        raise CommitUnknown("the connection was cut", locked=False)

    def open_or_decline(granted: Sequence[Granted]) -> list[None]:
        opened.append(granted)
        if len(opened) > 1:
            raise PurchasesRefused({grant.reservation: NotOpened() for grant in granted})
        return [None] * len(granted)

    monkeypatch.setattr(batch, "execute_and_commit", lose)
    with pytest.raises(OutcomeUnknown):
        services.reserve_many(purchases, open_or_decline)
    assert len(opened) == 2


def test_winner_refused_after_a_lost_commit_is_unknown(stock, monkeypatch):
    """The unit is gone when the winner is tried again, and may come back before the message."""
    item = stock(1)
    lost: list[object] = []

    def lose_the_first(statements, *, locked=True):
        if lost:
            return execute_and_commit(statements, locked=locked)
        lost.append(statements)
        at_once([partial(services.write_off, item, 1)])
        raise CommitUnknown("the connection was cut", locked=False)

    monkeypatch.setattr(batch, "execute_and_commit", lose_the_first)
    with pytest.raises(OutcomeUnknown):
        services.reserve_in_order([new_purchase(item)], open_nothing)


@pytest.fixture
def meanwhile(monkeypatch) -> Callable[[Callable[[], object]], None]:
    """Let something happen once, after a purchase has looked and before it writes."""

    def arrange(step: Callable[[], object]) -> None:
        look, steps = batch.look, [step]

        def look_and_go_on(*arguments, **how):
            seen = look(*arguments, **how)
            if steps:
                steps.pop()()
            return seen

        monkeypatch.setattr(batch, "look", look_and_go_on)

    return arrange


def test_purchase_on_a_new_standby_is_repeated_on_the_primary(stock, meanwhile):
    item, before = stock(1), counted("inventory_tried_again_total")
    meanwhile(lambda: connection.cursor().execute("SET TRANSACTION READ ONLY"))
    assert isinstance(sell(new_purchase(item)), Granted)
    assert counted("inventory_tried_again_total") == before + 1
    assert book(item).held == 1


def test_commit_message_that_timed_out_at_a_lock_is_busy(stock, monkeypatch):
    """The server refused a statement before the COMMIT: nothing was written, so nothing unknown."""
    monkeypatch.setattr(commit, "RETRY_FOR", 0.0)
    item, before = stock(1), counted("inventory_commit_unknown_total")
    monkeypatch.setattr(guard, "TAKE_OR_FAIL", f"SET LOCAL lock_timeout = 1; {guard.TAKE_OR_FAIL}")
    monkeypatch.setattr(batch, "LOCK_AND_LOOK", batch.LOOK)
    with outsider() as session, session.transaction():
        session.execute("SELECT FROM inventory_item WHERE id = %s FOR UPDATE", [item])
        with pytest.raises(Busy):
            sell(new_purchase(item))
    assert counted("inventory_commit_unknown_total") == before
    assert book(item).available == 1


def test_limit_used_meanwhile_is_decided_again(stock, meanwhile):
    """The batch is rolled back and retried, and all buyers get that attempt's answers."""

    def lose_the_race() -> None:
        raise RACED

    item = stock(10)
    meanwhile(lose_the_race)
    answers = at_once([partial(sell, new_purchase(item)) for _ in range(12)])
    assert kinds(answers) == {"Granted": 10, "SoldOut": 2}
    assert book(item).held == 10
    granted = {answer.reservation for answer in answers if isinstance(answer, Granted)}
    assert granted == set(Reservation.objects.values_list("pk", flat=True))


def test_limit_used_up_at_another_item_meanwhile_is_refused(stock, meanwhile):
    first, second = stock(1), stock(1)
    other = partial(sell, new_purchase(second, 1, scope=1, limit=1))
    answers: list[object] = []
    meanwhile(lambda: answers.extend(at_once([other])))
    assert sell(new_purchase(first, 1, scope=1, limit=1)) == LimitReached(0)
    assert (kinds(answers), book(first).available) == ({"Granted": 1}, 1)


@pytest.mark.parametrize(("method", "error"), [("set_autocommit", UNKNOWN), ("commit", None)])
def test_commit_that_fails_is_unknown(method, error, monkeypatch):
    def fail(*_):
        raise AWAY

    def end() -> None:
        with commit.committing():
            monkeypatch.setattr(connection, method, fail)
            if error:
                raise error

    with pytest.raises(CommitUnknown):
        end()
    monkeypatch.undo()
    connection.close()


# --- few messages while a row is locked ---------------------------------------------------------


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


def release(reservations: Sequence[int], **how: Any) -> list[services.Released]:
    """Release; the shop's part is three round trips."""
    with services.releasing(reservations, **how) as released:
        for _ in range(3):
            Reservation.objects.count()
    return released


def test_cart_locks_its_items_in_the_message_that_commits(stock, tmp_path, monkeypatch):
    # This thread keeps the connection that is traced.
    monkeypatch.setattr("inventory.selling.queue.lend_connections", lambda: None)
    items = [stock(9), stock(9), stock(9)]
    keys = line_keys(uuid4(), 3)
    lines = [new_purchase(item, 1, key=key) for item, key in zip(items, keys, strict=True)]
    with sent(tmp_path / "trace") as messages:
        answer = services.reserve_many(lines, open_nothing)
    assert isinstance(answer, list)
    [*before, last] = messages
    assert ("UPDATE inventory_item" in last, "COMMIT" in last) == (True, True)
    assert not [message for message in before if "FOR NO KEY UPDATE" in message]
    assert [book(item).available for item in items] == [8, 8, 8]


@pytest.mark.parametrize("number", [1, 30])
def test_batch_takes_three_messages_and_locks_in_the_last(number, stock, tmp_path):
    items = [stock(9) for _ in range(number)]
    tickets = [ticket(new_purchase(item)) for item in items for _ in range(2)]
    with sent(tmp_path / "trace") as messages:
        batch.sell(tickets)
    [begin, look, last] = messages
    assert ("BEGIN" in begin, "nextval" in look) == (True, True)
    assert "FOR NO KEY UPDATE" not in look
    assert ("UPDATE inventory_item" in last, "COMMIT" in last) == (True, True)
    assert [book(item).available for item in items] == [7] * number


@pytest.mark.parametrize(
    ("how", "available"), [({}, 9), ({"units": 1}, 8), ({"written_off": True}, 7)], ids=str
)
def test_release_locks_its_items_in_the_message_that_commits(how, available, stock, tmp_path):
    items = [stock(9), stock(9)]
    mine = [sell(new_purchase(item, 1, 2)).reservation for item in items]
    if "written_off" in how:
        how = {"written_off": mine}
    with sent(tmp_path / "trace") as messages:
        assert len(release(mine, **how)) == 2
    assert len(messages) >= 5
    [last] = [n for n, text in enumerate(messages) if "inventory_item" in text]
    assert "COMMIT" in messages[last]
    assert [book(item).available for item in items] == [available] * 2


def test_release_of_a_sold_out_item_ends_its_hint_before_commit(stock, tmp_path):
    item = stock(1)
    mine = sell(new_purchase(item)).reservation
    with sent(tmp_path / "trace") as messages:
        release([mine])
    # The message that commits was refused; the next one waits for those who refuse.
    last = ("SAVEPOINT release", "inventory_item", "pg_sleep", "COMMIT")
    assert [[part in message for part in last] for message in messages[-5:]] == [
        [True, True, False, True],
        [True, False, False, False],
        [False, True, False, False],
        [False, False, True, False],
        [False, False, False, True],
    ]
    assert book(item).available == 1


def test_release_in_another_transaction_ends_with_it(stock):
    item = stock(2)
    mine = sell(new_purchase(item)).reservation
    with transaction.atomic():
        release([mine])
        transaction.set_rollback(True)
    assert (book(item).available, book(item).held) == (1, 1)
    with transaction.atomic():
        release([mine])
    assert book(item).available == 2


@pytest.mark.django_db
def test_purchase_in_a_tests_transaction_is_rolled_back(stock):
    """Projects test their shops so, with Django's `TestCase`."""
    item = stock(9)
    sell(new_purchase(item, 1))
    assert reserved(item) == 1
    with outsider() as session:
        found = session.execute("SELECT count(*) FROM inventory_item").fetchone()
    assert found == (0,)
