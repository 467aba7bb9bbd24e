"""Several processes sell one item: exact with the lock, without it, and without Redis."""

from __future__ import annotations

from collections import Counter
from functools import partial
from typing import Any

import pytest
from django.db import connection

from development.servers import free_port
from inventory import services
from inventory.models import Item
from inventory.outcomes import Granted, Purchase, SoldOut, StaleToken
from inventory.redis import ITEM_LOCK
from inventory.selling import batch
from inventory.selling.commit import ConditionFailed
from inventory.tests.helpers import (
    at_once,
    book,
    counted,
    keys_of,
    kinds,
    new_purchase,
    open_nothing,
    outsider,
    problems,
    reserved,
    sell,
    ticket,
)
from inventory.tests.own_redis import client
from inventory.tests.processes import Worker, proxy, sell_bare, workers
from locking import LockLost
from locking.redis_lock import RedisLease

pytestmark = pytest.mark.django_db(transaction=True)

BARE: dict[str, Any] = {"prepare": sell_bare}


def race(shops: list[Worker], purchases: list[Purchase], **how) -> Counter[str]:
    """Distribute purchases over processes that sell concurrently; count the answers."""
    for n, shop in enumerate(shops):
        shop.start(purchases[n :: len(shops)], **how)
    return sum((shop.kinds() for shop in shops), Counter())


def assert_exact(item: int, stock: int, answered: Counter[str], asked: int) -> None:
    assert answered == {"Granted": stock, "SoldOut": asked - stock}
    assert (book(item).available, book(item).held, reserved(item)) == (0, stock, stock)


def test_processes_without_the_lock_sell_exactly_the_stock(stock):
    item = stock(150)
    purchases = [new_purchase(item) for _ in range(400)]
    with workers(2, **BARE) as shops:
        answered = race(shops, purchases, threads=8)
    assert_exact(item, 150, answered, 400)


def test_processes_at_the_items_lock_sell_exactly_the_stock(stock):
    item = stock(1000)
    purchases = [new_purchase(item) for _ in range(3000)]
    with workers(3) as shops:
        answered = race(shops, purchases, threads=50)
        for shop in shops:
            counts = shop.metrics()
            assert counts["inventory_lock_wait_seconds_count"] >= 1
            assert counts["inventory_without_lock_total"] < counts["inventory_batch_size_count"]
    assert_exact(item, 1000, answered, 3000)


def test_processes_with_and_without_redis_sell_exactly_the_stock(stock):
    item = stock(300)
    nowhere = f"redis://127.0.0.1:{free_port()}/0"
    with workers(2, redis=nowhere) as shops, workers(1) as locked:
        # Two batches each, however the race goes.
        alone = [race([shop], [new_purchase(item)], threads=1) for shop in shops * 2]
        assert alone == [{"Granted": 1}] * 4
        purchases = [new_purchase(item) for _ in range(896)]
        answered = race([*shops, *locked], purchases, threads=20) + Counter(Granted=4)
        for shop in shops:
            counts = shop.metrics()
            without_lock = counts["inventory_without_lock_total"]
            assert without_lock == counts["inventory_batch_size_count"]
            # Thanks to the circuit breaker, not every batch asks Redis.
            assert 1 <= counts["inventory_redis_unavailable_total"] < without_lock
    assert_exact(item, 300, answered, 900)


@pytest.mark.parametrize("setup", [BARE, {}], ids=["unlocked", "locked"])
def test_limit_holds_for_a_buyer_in_two_processes(setup, stock):
    item = stock(1000)
    limited = partial(new_purchase, item, limit=3)
    purchases = [limited(buyer) for _ in range(10) for buyer in range(1, 41)]
    with workers(2, **setup) as shops:
        answered = race(shops, purchases, threads=8)
    assert answered == {"Granted": 120, "LimitReached": 280}
    assert book(item).held == 120


def test_keys_used_in_two_processes_are_each_sold_once(stock):
    item = stock(1000)
    purchases = [new_purchase(item, limit=1) for _ in range(200)]
    with workers(2, **BARE) as shops:
        for shop in shops:
            shop.start(purchases, threads=8)
        answered = shops[0].kinds() + shops[1].kinds()
    assert answered == {"Granted": 400}
    assert keys_of(item) == {purchase.key for purchase in purchases}
    assert book(item).held == 200


def test_last_unit_is_sold_once_to_processes_without_the_lock(stock):
    """Without the guard this race oversells."""
    item = stock(20)
    with workers(2, **BARE) as shops:
        first, second = shops
        first.start([new_purchase(item, quantity=15)], stop="before_commit")
        assert first.hear() == "before_commit"
        second.start([new_purchase(item, quantity=15)])
        assert second.kinds() == {"Granted": 1}
        first.go_on()
        assert first.hear() == [SoldOut(available=5)]
    assert book(item).available == 5


# --- killed processes, stale tokens, cut connections --------------------------------------------


SHORT = 0.3
"""Lease of the killed process, in seconds: how long the others wait for it."""


@pytest.mark.parametrize("stop", ["before_commit", "after_commit"])
def test_key_of_a_holder_killed_at_its_commit_buys_once(stop, stock):
    """The others wait for its lease to end, and sell under a token of their own."""
    item = stock(2)
    mine = new_purchase(item)
    with workers(1, lease=SHORT) as [shop]:
        shop.start([mine], stop=stop)
        assert shop.hear() == stop
        shop.kill()
    committed = stop == "after_commit"
    assert reserved(item) == committed
    before = Item.objects.get(pk=item).fence
    assert (before > 0) == committed
    answer = sell(mine)
    assert isinstance(answer, Granted)
    assert answer.replayed == committed
    assert isinstance(sell(new_purchase(item)), Granted)
    assert Item.objects.get(pk=item).fence > before
    assert (book(item).available, book(item).held) == (0, 2)


def test_stale_token_changes_nothing(stock):
    item = stock(5)
    paused = ITEM_LOCK.make(item).acquire(timeout=1)
    assert ITEM_LOCK.make(item).force_release("the test's holder is paused past its lease")
    with ITEM_LOCK.make(item).acquire(timeout=1) as next_one:
        batch.sell([ticket(new_purchase(item))], next_one.token)
    before = Item.objects.values().get(pk=item)
    with pytest.raises(StaleToken):
        batch.sell([ticket(new_purchase(item))], paused.token)
    assert Item.objects.values().get(pk=item) == before
    assert reserved(item) == 1
    with pytest.raises(LockLost):
        paused.release()


def test_stale_token_after_the_look_changes_nothing(stock):
    item = stock(5)

    def overtake(granted):
        newer = partial(batch.sell, [ticket(new_purchase(item))], 2)
        assert at_once([newer])[0].keys() == {item}
        return open_nothing(granted)

    with pytest.raises(ConditionFailed):
        batch.sell([ticket(new_purchase(item), on_granted=overtake)], 1)
    assert (Item.objects.get(pk=item).fence, book(item).held, reserved(item)) == (2, 1, 1)


def test_batch_with_a_stale_token_is_sold_without_the_lock(stock):
    item = stock(5)
    future = 10**18  # a token from long after this test
    batch.sell([ticket(new_purchase(item))], future)
    before = counted("inventory_stale_token_total")
    assert isinstance(sell(new_purchase(item)), Granted)
    assert counted("inventory_stale_token_total") - before == 1
    assert Item.objects.get(pk=item).fence == future
    assert book(item).available == 3


def test_fence_is_not_lower_after_redis_lost_everything(stock):
    item = stock(5)
    sell(new_purchase(item))
    before = Item.objects.get(pk=item).fence
    client().flushdb()
    assert isinstance(sell(new_purchase(item)), Granted)
    assert Item.objects.get(pk=item).fence > before


def test_lock_is_released_only_after_the_commit(stock, monkeypatch):
    """At the moment of the release, other sessions must already see the sale."""
    item, seen = stock(1), []
    release = RedisLease.release

    def look_and_release(lease):
        seen.extend(at_once([lambda: book(item).available]))
        release(lease)

    monkeypatch.setattr(RedisLease, "release", look_and_release)
    sell(new_purchase(item))
    assert seen == [0]


@pytest.mark.parametrize("lose", ["answer", "request"])
def test_connection_cut_at_the_commit_is_not_a_failure(lose, stock):
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
def test_connection_cut_at_a_batch_commit_leaves_answers_true(lose, stock):
    item = stock(30)
    purchases = [new_purchase(item) for _ in range(60)]
    with proxy() as between, workers(1, port=between.port) as [shop]:
        between.lose = [lose, lose]
        shop.start(purchases, threads=30)
        assert shop.kinds() == {"Granted": 30, "SoldOut": 30}
        assert between.lost == 2
        assert shop.metrics()["inventory_commit_unknown_total"] == 2
    assert (book(item).available, reserved(item)) == (0, 30)


@pytest.mark.parametrize(("lose", "sold"), [("answer", 1), ("request", 0)])
def test_outcome_is_unknown_while_the_database_is_unreachable(lose, sold, stock):
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


def test_purchase_without_a_database_is_busy(stock):
    item = stock(3)
    with proxy() as between, workers(1, port=between.port, pool_timeout=0.5) as [shop]:
        between.closed = True
        shop.start([new_purchase(item)])
        assert shop.kinds() == {"Busy": 1}
    assert (book(item).available, reserved(item)) == (3, 0)


def test_batch_is_repeated_after_its_session_was_terminated(stock):
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
