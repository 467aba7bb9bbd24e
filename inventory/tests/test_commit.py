"""One retry policy: a transaction known to have written nothing is retried, within a time."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from django.db import IntegrityError, InternalError, OperationalError, connection
from psycopg_pool import PoolTimeout

from inventory.models import Reservation
from inventory.outcomes import Busy, Granted, LimitReached, OutcomeUnknown, StaleToken
from inventory.selling import batch, commit
from inventory.selling.commit import Attempts, CommitUnknown, ConditionFailed
from inventory.tests.helpers import at_once, book, kinds, new_purchase, sell

pytestmark = pytest.mark.django_db(transaction=True)

RACED = ConditionFailed("another purchase was faster")
AWAY = OperationalError("server closed the connection")
UNKNOWN = CommitUnknown("cut off")


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
    for attempt in Attempts():
        with attempt:
            result = transaction(attempt.fenced)
    return result


@pytest.mark.parametrize("seconds", [0.01, 60])
@pytest.mark.parametrize("failure", [RACED, AWAY, UNKNOWN])
def test_what_may_go_better_is_tried_again_however_long_it_took(failure, seconds, clock):
    assert complete(attempts(clock, seconds, failure, "sold")) == ("sold", True)


@pytest.mark.parametrize("seconds", [0.01, 60])
def test_an_overtaken_attempt_is_made_again_without_its_token(seconds, clock):
    overtaken = attempts(clock, seconds, StaleToken("1 is older than 2"), "sold")
    assert complete(overtaken) == ("sold", False)


@pytest.mark.parametrize(
    ("failure", "reason"),
    [
        (RACED, "another purchase was faster"),
        (AWAY, "cannot be reached"),
        (no_connection(), "no database connection became free"),
    ],
)
def test_an_attempt_that_never_ends_well_is_busy_with_its_own_reason(failure, reason, clock):
    with pytest.raises(Busy, match=reason) as busy:
        complete(attempts(clock, 0.1, failure))
    assert busy.value.__cause__ is failure
    assert clock.now < commit.RETRY_FOR + 1


def test_a_wait_in_vain_for_a_connection_is_not_repeated(clock):
    with pytest.raises(Busy):
        complete(attempts(clock, 5, no_connection()))
    assert clock.now < 10


@pytest.mark.parametrize("then", [AWAY, UNKNOWN, RACED, Busy("overtaken"), no_connection()])
def test_after_an_unknown_commit_overload_is_not_reported(then, clock):
    with pytest.raises(OutcomeUnknown):
        complete(attempts(clock, 1, UNKNOWN, then))


def test_what_an_attempt_itself_raises_is_passed_on(clock):
    with pytest.raises(IntegrityError):
        complete(attempts(clock, 1, AWAY, IntegrityError()))


def test_a_server_that_has_become_a_standby_is_left_for_the_primary(stock, monkeypatch):
    item, standbys, look = stock(1), [True], batch.look

    def look_at_a_standby_first(*arguments, **how):
        if standbys:
            with connection.cursor() as cursor:
                cursor.execute("SET TRANSACTION READ ONLY")
            standbys.clear()
        return look(*arguments, **how)

    monkeypatch.setattr(batch, "look", look_at_a_standby_first)
    assert isinstance(sell(new_purchase(item)), Granted)
    assert (standbys, book(item).held) == ([], 1)


def test_other_errors_inside_the_server_are_passed_on(clock):
    with pytest.raises(InternalError):
        complete(attempts(clock, 0.01, InternalError("invalid page"), "sold"))


def test_a_raced_limit_is_decided_anew(stock, monkeypatch):
    """The batch is rolled back and retried, and all buyers get that attempt's answers."""
    item = stock(10)
    raced: list[bool] = []
    look = batch.look

    def look_and_race(*arguments, **how):
        seen = look(*arguments, **how)
        if not raced:
            raced.append(True)
            raise RACED
        return seen

    monkeypatch.setattr(batch, "look", look_and_race)
    answers = at_once([partial(sell, new_purchase(item)) for _ in range(12)])
    assert kinds(answers) == {"Granted": 10, "SoldOut": 2}
    assert book(item).held == 10
    told = {each.reservation for each in answers if isinstance(each, Granted)}
    assert told == set(Reservation.objects.values_list("pk", flat=True))


def test_a_limit_that_is_used_up_at_another_item_meanwhile_is_told_as_reached(stock, monkeypatch):
    first, second = stock(1), stock(1)
    look, meanwhile = batch.look, [new_purchase(second, 1, scope=1, limit=1)]

    def look_and_race(*arguments, **how):
        seen = look(*arguments, **how)
        if meanwhile:
            other = partial(sell, meanwhile.pop())
            assert kinds(at_once([other])) == {"Granted": 1}
        return seen

    monkeypatch.setattr(batch, "look", look_and_race)
    mine = new_purchase(first, 1, scope=1, limit=1)
    assert sell(mine) == LimitReached(0)
    assert book(first).available == 1


@pytest.mark.parametrize(("method", "error"), [("set_autocommit", UNKNOWN), ("commit", None)])
def test_what_fails_at_the_end_of_a_transaction_is_unknown(method, error, monkeypatch):
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
