"""Killed processes, cut connections, stale tokens: a repeated key always gets the result."""

from __future__ import annotations

from functools import partial

import pytest
from django.db import connection

from inventory import services
from inventory.metrics import metrics
from inventory.models import Item
from inventory.outcomes import Granted, PurchaseTicket, SoldOut, StaleToken
from inventory.redis import ITEM_LOCK, client
from inventory.selling import batch
from inventory.selling.commit import ConditionFailed
from inventory.tests.helpers import (
    at_once,
    book,
    kinds,
    new_purchase,
    open_nothing,
    outsider,
    problems,
    reserved,
    sell,
)
from inventory.tests.processes import proxy, workers
from locking import LockLost

pytestmark = pytest.mark.django_db(transaction=True)

SHORT = 0.3
"""Lease of the killed process, in seconds: how long the others wait for it."""


# --- a process dies ----------------------------------------------------------------------------


@pytest.mark.parametrize("stop", ["before_commit", "after_commit"])
def test_the_key_of_a_lock_holder_killed_around_its_commit_buys_once(stop, stock):
    item = stock(2)
    mine = new_purchase(item)
    with workers(1, lease=SHORT) as [shop]:
        shop.start([mine], stop=stop)
        assert shop.hear() == stop
        shop.kill()
    committed = stop == "after_commit"
    assert reserved(item) == committed
    answer = sell(mine)
    assert isinstance(answer, Granted)
    assert answer.replayed == committed
    assert (book(item).available, book(item).held) == (1, 1)


def test_the_lock_of_a_killed_holder_is_waited_out_and_the_next_sells_under_its_own(stock):
    item = stock(3)
    with workers(1, lease=SHORT) as [shop]:
        shop.start([new_purchase(item)], stop="after_commit")
        assert shop.hear() == "after_commit"
        before = Item.objects.get(pk=item).fence
        shop.kill()
    assert isinstance(sell(new_purchase(item)), Granted)
    assert Item.objects.get(pk=item).fence > before > 0


# --- a holder is overtaken ---------------------------------------------------------------------


def test_a_holder_that_was_overtaken_changes_nothing_with_its_stale_token(stock):
    item = stock(5)
    paused = ITEM_LOCK.make(item).acquire(timeout=1)
    assert ITEM_LOCK.make(item).force_release("the test's holder is paused past its lease")
    with ITEM_LOCK.make(item).acquire(timeout=1) as next_one:
        batch.sell([PurchaseTicket(new_purchase(item))], open_nothing, next_one.token)
    before = Item.objects.values().get(pk=item)
    with pytest.raises(StaleToken):
        batch.sell([PurchaseTicket(new_purchase(item))], open_nothing, paused.token)
    assert Item.objects.values().get(pk=item) == before
    assert reserved(item) == 1
    with pytest.raises(LockLost):
        paused.release()


def test_a_holder_that_is_overtaken_after_its_look_changes_nothing(stock):
    item = stock(5)

    def overtake(granted):
        newer = partial(batch.sell, [PurchaseTicket(new_purchase(item))], open_nothing, 2)
        assert at_once([newer])[0].keys() == {item}
        return open_nothing(granted)

    with pytest.raises(ConditionFailed):
        batch.sell([PurchaseTicket(new_purchase(item))], overtake, 1)
    assert (Item.objects.get(pk=item).fence, book(item).held, reserved(item)) == (2, 1, 1)


def test_an_overtaken_batch_is_sold_again_without_the_lock(stock):
    item = stock(5)
    future = 10**18  # a token from long after this test
    batch.sell([PurchaseTicket(new_purchase(item))], open_nothing, future)
    before = metrics.read()
    assert isinstance(sell(new_purchase(item)), Granted)
    assert metrics.read()["stale_token"] - before.get("stale_token", 0) == 1
    assert Item.objects.get(pk=item).fence == future
    assert book(item).available == 3


def test_the_fence_is_not_lower_after_redis_lost_everything(stock):
    item = stock(5)
    sell(new_purchase(item))
    before = Item.objects.get(pk=item).fence
    client().flushdb()
    assert isinstance(sell(new_purchase(item)), Granted)
    assert Item.objects.get(pk=item).fence > before


def test_the_lock_is_given_back_after_the_commit_and_not_before(stock, monkeypatch):
    """At the moment of the release, other sessions must already see the sale."""
    from locking.backends.redis import RedisLease

    item = stock(1)
    seen = []
    release = RedisLease.release

    def look_and_release(lease):
        with outsider() as session:
            seen.append(
                session.execute(
                    "SELECT available FROM inventory_item WHERE id = %s", [item]
                ).fetchone()
            )
        release(lease)

    monkeypatch.setattr(RedisLease, "release", look_and_release)
    sell(new_purchase(item))
    assert seen == [(0,)]


# --- the database's connection is cut ----------------------------------------------------------


@pytest.mark.parametrize("lose", ["answer", "request"])
def test_a_cut_at_the_commit_is_never_answered_as_a_failure(lose, stock):
    """Whether or not the server had committed, the buyer gets exactly one unit."""
    item = stock(3)
    mine = new_purchase(item)
    with proxy() as between, workers(1, port=between.port) as [shop]:
        between.lose = [lose]
        shop.start([mine])
        assert shop.kinds() == {"Granted": 1}
        assert between.lost == 1
    assert (book(item).available, reserved(item)) == (2, 1)


@pytest.mark.parametrize("lose", ["answer", "request"])
def test_a_cut_at_the_commit_of_a_batch_leaves_every_answer_true(lose, stock):
    item = stock(30)
    purchases = [new_purchase(item) for _ in range(60)]
    with proxy() as between, workers(1, port=between.port) as [shop]:
        between.lose = [lose, lose]
        shop.start(purchases, threads=30)
        assert shop.kinds() == {"Granted": 30, "SoldOut": 30}
        assert between.lost == 2
        assert shop.metrics()["commit_unknown"] == 2
    assert (book(item).available, reserved(item)) == (0, 30)


@pytest.mark.parametrize(("lose", "sold"), [("answer", 1), ("request", 0)])
def test_while_the_database_is_unreachable_the_outcome_is_unknown_until_a_retry(lose, sold, stock):
    item = stock(3)
    mine = new_purchase(item)
    with proxy() as between, workers(1, port=between.port, pool_timeout=0.5) as [shop]:
        between.lose, between.close_after = [lose], True
        shop.start([mine])
        assert shop.kinds() == {"OutcomeUnknown": 1}
        assert reserved(item) == sold
        between.closed = False
        shop.start([mine])
        assert shop.kinds() == {"Granted": 1}
    assert (book(item).available, reserved(item)) == (2, 1)


def test_a_database_that_was_never_there_is_busy_and_nothing_is_written(stock):
    item = stock(3)
    with proxy() as between, workers(1, port=between.port, pool_timeout=0.5) as [shop]:
        between.closed = True
        shop.start([new_purchase(item)])
        assert shop.kinds() == {"Busy": 1}
    assert (book(item).available, reserved(item)) == (3, 0)


def test_a_session_terminated_in_the_middle_of_a_batch_is_tried_again(stock):
    item = stock(5)
    terminated: list[bool] = []

    def terminate_once(granted):
        if not terminated:
            terminated.append(True)
            # Its own session alone: another batch's could be at its commit, which is then unknown.
            own = connection.connection.info.backend_pid
            with outsider() as session:
                session.execute("SELECT pg_terminate_backend(%s, 10000)", [own])
            Item.objects.get(pk=item)  # finds the connection gone
        return open_nothing(granted)

    answers = at_once(
        [partial(services.reserve, new_purchase(item), terminate_once) for _ in range(8)]
    )
    assert kinds(answers) == {"Granted": 5, "SoldOut": 3}
    assert (book(item).available, reserved(item)) == (0, 5)
    assert problems(item) == []
    assert SoldOut(0) in answers
