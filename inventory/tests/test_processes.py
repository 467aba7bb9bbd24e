"""Several processes sell one item: exact with the lock, without it, and without Redis."""

from __future__ import annotations

from collections import Counter
from functools import partial

import pytest

from inventory.outcomes import Purchase, SoldOut
from inventory.tests.helpers import book, keys_of, new_purchase, reserved
from inventory.tests.processes import Worker, workers
from locking.tests.servers import free_port

pytestmark = pytest.mark.django_db(transaction=True)

NO_LOCK: dict[str, object] = {"INVENTORY_FEATURE_FLAGS": []}


def race(shops: list[Worker], purchases: list[Purchase], **how) -> Counter[str]:
    """Distribute purchases over processes that sell concurrently; count the answers."""
    for n, shop in enumerate(shops):
        shop.start(purchases[n :: len(shops)], **how)
    return sum((shop.kinds() for shop in shops), Counter())


def assert_exact(item: int, stock: int, answered: Counter[str], asked: int) -> None:
    assert answered == {"Granted": stock, "SoldOut": asked - stock}
    assert (book(item).available, book(item).held, reserved(item)) == (0, stock, stock)


def test_two_processes_without_the_lock_sell_exactly_what_there_is(stock):
    item = stock(150)
    purchases = [new_purchase(item) for _ in range(400)]
    with workers(2, override=NO_LOCK) as shops:
        answered = race(shops, purchases, threads=8)
    assert_exact(item, 150, answered, 400)


def test_three_processes_at_the_items_lock_sell_exactly_what_there_is(stock):
    item = stock(1000)
    purchases = [new_purchase(item) for _ in range(3000)]
    with workers(3) as shops:
        answered = race(shops, purchases, threads=50)
        for shop in shops:
            counted = shop.metrics()
            assert counted["lock_wait_seconds_count"] >= 1
            assert counted.get("without_lock", 0) < counted["batch_size_count"]
    assert_exact(item, 1000, answered, 3000)


def test_two_processes_without_redis_sell_exactly_what_there_is_and_say_so(stock):
    item = stock(300)
    nowhere = f"redis://127.0.0.1:{free_port()}/0"
    with workers(2, redis=nowhere) as shops:
        answered = race(shops, [new_purchase(item) for _ in range(800)], threads=20)
        for shop in shops:
            counted = shop.metrics()
            assert counted["redis_unavailable"] >= 1
            assert counted["without_lock"] == counted["batch_size_count"]
            # Thanks to the circuit breaker, not every batch asks Redis.
            assert counted["redis_unavailable"] < counted["without_lock"]
    assert_exact(item, 300, answered, 800)


def test_a_process_with_the_lock_and_one_without_redis_stay_exact_together(stock):
    item = stock(200)
    nowhere = f"redis://127.0.0.1:{free_port()}/0"
    with workers(1) as locked, workers(1, redis=nowhere) as alone:
        answered = race([*locked, *alone], [new_purchase(item) for _ in range(600)], threads=20)
    assert_exact(item, 200, answered, 600)


@pytest.mark.parametrize("override", [NO_LOCK, {}], ids=["unlocked", "locked"])
def test_a_buyer_in_two_processes_gets_no_more_than_the_limit(override, stock):
    item = stock(1000)
    limited = partial(new_purchase, item, limit=3)
    purchases = [limited(buyer) for _ in range(10) for buyer in range(1, 41)]
    with workers(2, override=override) as shops:
        answered = race(shops, purchases, threads=8)
    assert answered == {"Granted": 120, "LimitReached": 280}
    assert book(item).held == 120


def test_the_same_keys_in_two_processes_are_each_sold_once(stock):
    item = stock(1000)
    purchases = [new_purchase(item, limit=1) for _ in range(200)]
    with workers(2, override=NO_LOCK) as shops:
        for shop in shops:
            shop.start(purchases, threads=8)
        answered = shops[0].kinds() + shops[1].kinds()
    assert answered == {"Granted": 400}
    assert keys_of(item) == {purchase.key for purchase in purchases}
    assert book(item).held == 200


def test_two_processes_that_race_without_the_lock_sell_to_one(stock):
    """Without the guard this race oversells."""
    item = stock(20)
    with workers(2, override=NO_LOCK) as shops:
        first, second = shops
        first.start([new_purchase(item, quantity=15)], stop="before_commit")
        assert first.hear() == "before_commit"
        second.start([new_purchase(item, quantity=15)])
        assert second.kinds() == {"Granted": 1}
        first.go_on()
        assert first.hear() == [SoldOut(available=5)]
    assert book(item).available == 5
