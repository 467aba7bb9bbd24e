"""The delay queue, with many consumers and with crashes."""

from __future__ import annotations

import threading
from contextlib import ExitStack

import pytest

from locking.queue import AsyncDelayQueue, DelayQueue
from locking.redis_client import connect
from locking.tests.helpers import eventually, process


def consume(url: str, done: str) -> None:
    """Pop, note, acknowledge, until the queue is empty."""
    client = connect(url)
    queue = DelayQueue(client, "orders")
    while queue.next_due() is not None:
        taken = queue.pop(7)
        if taken:
            client.rpush(done, *ids_of(taken))
        assert queue.acknowledge(taken) == len(taken)


def pop_and_hang(url: str, claim: float) -> None:
    client = connect(url)
    DelayQueue(client, "orders", claim=claim).pop(5)
    client.set("popped", 1)
    threading.Event().wait()


@pytest.fixture
def queue(store):
    return DelayQueue(store, "orders")


def ids_of(dues) -> list[str]:
    return [due.id for due in dues]


def test_an_id_is_due_after_its_delay_and_not_before(store, queue):
    assert queue.enqueue(["a"], 60) == 1
    assert queue.enqueue(["b"], 0.2) == 1
    assert queue.top(10) == []
    assert queue.pop(10) == []
    due = queue.next_due()
    assert abs(due - store.time()[0]) < 10
    (taken,) = eventually(lambda: queue.pop(10))
    assert taken.id == "b"
    assert taken.score == due
    assert len(queue) == 1


def test_entering_an_id_again_changes_nothing_unless_asked_to_reschedule(queue):
    queue.enqueue(["a"], 60)
    due = queue.next_due()
    assert queue.enqueue(["a"], 0) == 0
    assert queue.next_due() == due
    assert queue.enqueue(["a", "b"], 0, reschedule=True) == 2
    assert ids_of(queue.top(10)) == ["a", "b"]
    assert len(queue) == 2


def test_one_text_instead_of_several_ids_and_other_kinds_of_arguments_are_refused(store, queue):
    for call in (
        lambda: queue.enqueue("order-7", 0),
        lambda: queue.discard("order-7"),
        lambda: queue.enqueue(["order-7"], None),
        lambda: DelayQueue(store, None),  # type: ignore[arg-type]
    ):
        with pytest.raises(TypeError, match=r"several|is a number|is text"):
            call()
    with pytest.raises(ValueError, match="a lease lasts"):
        DelayQueue(store, "orders", claim=0)
    assert len(queue) == 0


def test_an_id_in_flight_is_still_in_the_queue(queue):
    queue.enqueue(["a"], 0)
    (taken,) = queue.pop()
    assert queue.enqueue(["a"], 0) == 0
    assert (len(queue), queue.in_flight()) == (0, 1)
    assert queue.enqueue(["a"], 0, reschedule=True) == 1
    assert (len(queue), queue.in_flight()) == (1, 0)
    assert queue.acknowledge([taken]) == 0
    assert len(queue) == 1


def test_pop_takes_the_longest_due_and_no_more_than_asked(queue):
    for number in (3, 1, 2):
        queue.enqueue([str(number)], -10 + number)
    assert ids_of(queue.top(2)) == ["1", "2"]
    assert ids_of(queue.pop()) == ["1"]
    assert ids_of(queue.pop(9)) == ["2", "3"]
    assert (len(queue), queue.in_flight()) == (0, 3)


def test_dequeue_takes_an_id_only_if_it_was_not_rescheduled_since_it_was_read(queue):
    queue.enqueue(["a"], -1)
    (read,) = queue.top()
    queue.enqueue(["a"], 5, reschedule=True)
    assert not queue.dequeue("a", read.score)
    assert len(queue) == 1
    queue.enqueue(["a"], -1, reschedule=True)
    (read,) = queue.top()
    assert queue.dequeue("a", read.score)
    assert not queue.dequeue("a", read.score)
    assert len(queue) == 0


def test_many_processes_take_every_id_exactly_once(store, store_server, queue):
    ids = {f"order-{number}" for number in range(2000)}
    assert queue.enqueue(ids, 0) == 2000
    with ExitStack() as running:
        workers = [process(consume, store_server.endpoint, "done") for _ in range(4)]
        for worker in [running.enter_context(each) for each in workers]:
            worker.join(60)
            assert worker.exitcode == 0
    done = [one.decode() for one in store.lrange("done", 0, -1)]
    assert len(done) == 2000
    assert set(done) == ids
    assert queue.next_due() is None


def test_what_a_killed_consumer_did_not_acknowledge_comes_back(store, store_server, queue):
    queue.enqueue(["a", "b"], 0)
    with process(pop_and_hang, store_server.endpoint, 3.0) as victim:
        eventually(lambda: store.exists("popped"))
        victim.kill()
    assert (len(queue), queue.in_flight()) == (0, 2)
    back = eventually(lambda: queue.pop(9))
    assert sorted(ids_of(back)) == ["a", "b"]
    assert queue.acknowledge(back) == 2
    assert queue.next_due() is None


def test_a_late_acknowledgement_does_not_end_another_consumers_claim(store):
    slow, other = DelayQueue(store, "orders", claim=0.05), DelayQueue(store, "orders")
    slow.enqueue(["a"], 0)
    late = slow.pop()
    again = eventually(other.pop)
    assert slow.acknowledge(late) == 0
    assert other.in_flight() == 1
    assert other.acknowledge(again) == 1


def test_a_client_that_decodes_replies_sees_the_same(store_server, store):
    queue = DelayQueue(connect(store_server.endpoint, decode_responses=True), "orders")
    queue.enqueue(["a"], -1)
    assert ids_of(queue.top()) == ids_of(queue.pop()) == ["a"]


def test_discarded_ids_are_gone_whether_they_waited_or_were_in_flight(queue):
    queue.enqueue(["a", "b"], 0)
    queue.enqueue(["c"], 60)
    (taken,) = queue.pop(1)
    assert queue.discard([]) == 0
    assert queue.discard([taken.id, "c", "never heard of"]) == 2
    assert queue.acknowledge([taken]) == 0
    assert ids_of(queue.top(10)) == ["b"]
    assert (len(queue), queue.in_flight()) == (1, 0)


def test_bytes_are_taken_as_what_they_are(queue):
    assert queue.enqueue([b"order-7", b"\xff\xfe"], -1) == 2
    assert queue.enqueue(["order-7"], -1) == 0
    taken = queue.pop(9)
    assert sorted(ids_of(taken)) == ["order-7", "\udcff\udcfe"]
    assert queue.acknowledge(taken) == 2
    queue.enqueue([b"\xff"], -1)
    (due,) = queue.top()
    assert queue.dequeue(due.id, due.score)


async def test_asyncio_queue_has_the_same_operations(valkey_async):
    queue = AsyncDelayQueue(valkey_async, "orders")
    assert await queue.enqueue(["a", "b"], -1) == 2
    taken = await queue.pop(1)
    assert (await queue.waiting(), await queue.in_flight()) == (1, 1)
    assert await queue.acknowledge(taken) == 1
    assert await queue.discard(["b"]) == 1
    assert await queue.next_due() is None
