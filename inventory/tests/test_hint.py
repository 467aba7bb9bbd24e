"""The sold-out hint and the circuit breaker: cheap refusals, never a wrong one."""

from __future__ import annotations

import threading
from functools import partial

import pytest
import redis

from inventory import services
from inventory.metrics import metrics
from inventory.outcomes import Granted, Level, SoldOut
from inventory.redis import Circuit, client
from inventory.selling.hint import LIFETIME, BuyersOfItem, Hint, hint
from inventory.selling.seller import Seller
from inventory.tests.helpers import at_once, book, crowd, kinds, new_purchase, release, sell
from inventory.tests.processes import workers
from locking.tests.servers import free_port

pytestmark = pytest.mark.django_db(transaction=True)

ITEM = 10**12
"""An item without a row, for tests of the hint alone."""


@pytest.fixture
def no_batches(monkeypatch):
    """Fail every purchase that queries the database."""

    def refuse(*arguments, **how):
        raise AssertionError("the database was queried")

    def forbid() -> None:
        monkeypatch.setattr(Seller, "sell_batch", staticmethod(refuse))

    return forbid


@pytest.fixture
def register():
    """The hints, without one of the item under test."""
    client().delete(f"stock:{{{ITEM}}}")
    yield hint()
    client().delete(f"stock:{{{ITEM}}}")


# --- the register ------------------------------------------------------------------------------


def test_what_was_published_is_read(register):
    assert register.read(ITEM) is None
    assert register.publish(ITEM, Level(0, 7))
    assert register.read(ITEM) == Level(0, 7)


def test_an_old_level_does_not_overwrite_a_newer_one(register):
    """A slow writer's "sold out" that arrives after the restock has published."""
    register.publish(ITEM, Level(5, 8))
    assert not register.publish(ITEM, Level(0, 7))
    assert register.read(ITEM) == Level(5, 8)


def test_a_hint_ends_by_itself(register):
    register.publish(ITEM, Level(0, 7))
    assert 0 < client().pttl(f"stock:{{{ITEM}}}") <= LIFETIME * 1000


def test_many_writers_at_once_leave_the_newest(register):
    levels = [Level(n % 3, n) for n in range(1, 41)]
    at_once([partial(register.publish, ITEM, level) for level in levels])
    assert register.read(ITEM) == levels[-1]


def test_without_redis_nothing_is_read_and_nothing_is_said_to_be_there():
    nowhere = redis.Redis.from_url(f"redis://127.0.0.1:{free_port()}/0")
    away = Hint(nowhere, Circuit())
    assert away.read(ITEM) is None
    assert not away.publish(ITEM, Level(0, 1))


@pytest.fixture
def before_publishing(monkeypatch) -> list[Level | None]:
    """What a reader gets after a commit and before the hint is published."""
    seen: list[Level | None] = []
    monkeypatch.setattr(
        type(hint()), "publish_with_retry", lambda self, of, level: seen.append(self.read(of))
    )
    return seen


def test_no_unit_is_had_before_the_older_hint_is_gone(stock, before_publishing):
    """A buyer gets a restocked unit at once and repeats the request in another process."""
    item = stock(1)
    sell(new_purchase(item))
    sold_out = hint().read(item)
    assert sold_out is not None
    assert sold_out.available == 0
    before_publishing.clear()
    level = services.restock(item, 3)
    assert before_publishing == [level], "after the commit no reader gets the older one"


def test_no_released_unit_is_had_before_the_older_hint_is_gone(stock, before_publishing):
    granted = sell(new_purchase(stock(1)))
    before_publishing.clear()
    release(granted.reservation)
    assert [level and level.available for level in before_publishing] == [1]


def test_without_the_announcement_there_is_a_gap(stock, before_publishing, monkeypatch):
    """The negative control."""
    item = stock(1)
    sell(new_purchase(item))
    monkeypatch.setattr(type(hint()), "announce", lambda *arguments: None)
    before_publishing.clear()
    services.restock(item, 3)
    assert before_publishing[0].available == 0


def test_what_was_announced_and_not_committed_gives_way_to_what_was(register):
    register.publish(ITEM, Level(0, 7))
    register.announce(ITEM, Level(5, 8))
    assert register.publish(ITEM, Level(0, 8)), "another change has the same number"
    assert register.read(ITEM) == Level(0, 8)


def test_a_full_redis_still_forgets_an_old_hint_at_once(register):
    own = Hint(client(), Circuit())
    own.publish(ITEM, Level(0, 7))
    before = str(client().config_get("maxmemory")["maxmemory"])
    client().config_set("maxmemory", 1)
    try:
        own.publish_with_retry(ITEM, Level(5, 9))
        assert own.read(ITEM) is None
    finally:
        client().config_set("maxmemory", before)


def test_a_hint_that_must_not_be_lost_is_tried_until_redis_answers(register, monkeypatch):
    write, failures = Hint._write, [redis.TimeoutError(), redis.ConnectionError()]

    def hesitate(self: Hint, item: int, level: Level) -> int:
        if failures:
            raise failures.pop()
        return write(self, item, level)

    register.publish(ITEM, Level(0, 7))
    monkeypatch.setattr(Hint, "_write", hesitate)
    register.publish_with_retry(ITEM, Level(5, 8))
    assert register.read(ITEM) == Level(5, 8)


# --- set, used, removed ------------------------------------------------------------------------


def test_the_hint_is_set_when_the_last_unit_is_committed_and_not_before(stock):
    item = stock(2)
    sell(new_purchase(item))
    assert hint().read(item) is None
    sell(new_purchase(item))
    level = hint().read(item)
    assert level is not None
    assert level.available == 0


def test_a_sold_out_item_is_refused_without_the_database(stock, no_batches):
    item = stock(1)
    sell(new_purchase(item))
    assert sell(new_purchase(item)) == SoldOut(0)
    before = metrics.read().get("refused_by_hint", 0)
    no_batches()
    assert kinds(crowd(sell, [new_purchase(item) for _ in range(200)], 20)) == {"SoldOut": 200}
    assert metrics.read()["refused_by_hint"] - before == 200


def test_with_admission_off_the_database_answers(stock, settings):
    item = stock(1)
    sell(new_purchase(item))
    settings.INVENTORY_FEATURE_FLAGS = ["lock", "connections"]
    before = metrics.read().get("refused_by_hint", 0)
    assert sell(new_purchase(item)) == SoldOut(0)
    assert metrics.read().get("refused_by_hint", 0) == before


def test_a_buyer_with_a_reservation_gets_it_again_while_sold_out(stock):
    item = stock(2)
    mine = new_purchase(item, limit=1)
    first = sell(mine)
    sell(new_purchase(item))
    assert sell(new_purchase(item)) == SoldOut(0)
    again = sell(mine)
    assert (again.replayed, again.reservation) == (True, first.reservation)


def test_holders_and_newcomers_in_one_crowd_each_get_the_truth(stock):
    item = stock(50)
    mine = [new_purchase(item) for _ in range(50)]
    crowd(sell, mine, 10)
    newcomers = [new_purchase(item) for _ in range(50)]
    answers = crowd(sell, [*mine, *newcomers], 20)
    assert kinds(answers) == {"Granted": 50, "SoldOut": 50}
    assert {each.purchase.key for each in answers if isinstance(each, Granted)} == {
        each.key for each in mine
    }


def test_a_restock_removes_the_hint_before_it_returns(stock):
    item = stock(1)
    sell(new_purchase(item))
    assert sell(new_purchase(item)) == SoldOut(0)
    services.restock(item, 2)
    level = hint().read(item)
    assert level is None or level.available == 2
    assert isinstance(sell(new_purchase(item)), Granted)


def test_a_release_removes_the_hint_before_it_returns(stock):
    item = stock(1)
    granted = sell(new_purchase(item))
    assert sell(new_purchase(item)) == SoldOut(0)
    release(granted.reservation)
    assert isinstance(sell(new_purchase(item)), Granted)
    assert book(item).available == 0


def test_after_a_restock_another_process_sells_at_once_and_exactly(stock):
    item = stock(5)
    with workers(1) as [other]:
        for round_ in range(1, 6):
            other.start([new_purchase(item) for _ in range(8)], threads=4)
            assert other.kinds() == {"Granted": 5, "SoldOut": 3}
            other.start([new_purchase(item)])
            assert other.kinds() == {"SoldOut": 1}
            assert sell(new_purchase(item)) == SoldOut(0)
            assert book(item).held == 5 * round_
            services.restock(item, 5)
        assert other.metrics().get("refused_by_hint", 0) > 0
    assert book(item).available == 5


def test_buyers_and_restocks_at_once_sell_exactly_everything(stock):
    item = stock(10)
    done = threading.Event()

    def restock() -> None:
        for _ in range(20):
            services.restock(item, 2)
        done.set()

    def buy_until_all_is_there() -> int:
        bought = 0
        while True:
            all_there = done.is_set()
            if isinstance(sell(new_purchase(item)), Granted):
                bought += 1
            elif all_there:
                return bought

    bought = at_once([*[buy_until_all_is_there] * 12, restock])[:-1]
    assert sum(bought) == 50
    assert (book(item).available, book(item).total) == (0, 50)


def test_a_hint_that_was_lost_costs_a_look_and_nothing_else(stock):
    item = stock(1)
    sell(new_purchase(item))
    client().delete(f"stock:{{{item}}}")
    assert sell(new_purchase(item)) == SoldOut(0)


def test_holders_are_read_once_for_each_time_the_item_runs_out(stock, django_assert_num_queries):
    item = stock(3)
    for buyer in (1, 2, 3):
        sell(new_purchase(item, buyer))
    buyers = BuyersOfItem()
    with django_assert_num_queries(1):
        assert buyers.of(item, Level(0, 5)) == frozenset({1, 2, 3})
        assert buyers.of(item, Level(0, 5)) == frozenset({1, 2, 3})
    with django_assert_num_queries(1):
        buyers.of(item, Level(0, 6))


def test_too_many_holders_are_not_remembered(stock, monkeypatch):
    monkeypatch.setattr("inventory.selling.hint.MAX_HOLDERS", 2)
    item = stock(3)
    mine = [new_purchase(item, buyer) for buyer in (1, 2, 3)]
    for each in mine:
        sell(each)
    assert BuyersOfItem().of(item, Level(0, 5)) is None
    assert [sell(each).replayed for each in mine] == [True] * 3
    assert sell(new_purchase(item)) == SoldOut(0)


# --- the circuit -------------------------------------------------------------------------------


class Clock:
    now = 0.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    monkeypatch.setattr("inventory.redis.time", clock)
    return clock


def test_a_redis_that_failed_is_skipped_for_a_while_and_then_probed_by_one_caller(clock):
    asked = []
    circuit = Circuit()

    def fail() -> str:
        asked.append(clock.now)
        raise redis.ConnectionError

    for moment in (0.0, 0.1, 0.9, 1.1, 1.2, 2.2):
        clock.now = moment
        assert circuit.ask(fail, otherwise="no answer") == "no answer"
    assert asked == [0.0, 1.1, 2.2]
    assert circuit.open


def test_a_redis_that_is_back_is_used_again(clock):
    circuit = Circuit()

    def fail() -> str:
        raise redis.TimeoutError

    circuit.ask(fail, otherwise="")
    clock.now = 1.5
    assert circuit.ask(lambda: "answer", otherwise="") == "answer"
    assert not circuit.open
    assert circuit.ask(lambda: "answer", otherwise="") == "answer"


def test_a_mistake_in_the_question_is_no_outage():
    circuit = Circuit()
    with pytest.raises(ZeroDivisionError):
        circuit.ask(lambda: 1 / 0, otherwise=0.0)
    assert not circuit.open
