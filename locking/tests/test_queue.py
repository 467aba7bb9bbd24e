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


def test_queue_returns_an_id_after_its_delay_and_not_before(store, queue):
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


def test_enqueue_of_a_known_id_changes_nothing_by_default(queue):
    queue.enqueue(["a"], 60)
    due = queue.next_due()
    assert queue.enqueue(["a"], 0) == 0
    assert queue.next_due() == due
    assert queue.enqueue(["a", "b"], 0, reschedule=True) == 2
    assert ids_of(queue.top(10)) == ["a", "b"]
    assert len(queue) == 2


def test_queue_refuses_arguments_of_wrong_types(store, queue):
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


def test_queue_still_contains_an_id_in_flight(queue):
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


def test_dequeue_leaves_an_id_that_was_rescheduled_meanwhile(queue):
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


def test_queue_gives_every_id_to_one_of_many_processes(store, store_server, queue):
    ids = {f"order-{number}" for number in range(2000)}
    assert queue.enqueue(ids, 0) == 2000
    with ExitStack() as running:
        workers = [process(consume, store_server.endpoint, "done") for _ in range(4)]
        for worker in [running.enter_context(process) for process in workers]:
            worker.join(60)
            assert worker.exitcode == 0
    done = [one.decode() for one in store.lrange("done", 0, -1)]
    assert len(done) == 2000
    assert set(done) == ids
    assert queue.next_due() is None


def test_queue_returns_what_a_killed_consumer_had_claimed(store, store_server, queue):
    queue.enqueue(["a", "b"], 0)
    with process(pop_and_hang, store_server.endpoint, 3.0) as victim:
        eventually(lambda: store.exists("popped"))
        victim.kill()
    assert (len(queue), queue.in_flight()) == (0, 2)
    back = eventually(lambda: queue.pop(9))
    assert sorted(ids_of(back)) == ["a", "b"]
    assert queue.acknowledge(back) == 2
    assert queue.next_due() is None


def test_late_acknowledgement_does_not_end_anothers_claim(store):
    slow, other = DelayQueue(store, "orders", claim=0.05), DelayQueue(store, "orders")
    slow.enqueue(["a"], 0)
    late = slow.pop()
    again = eventually(other.pop)
    assert slow.acknowledge(late) == 0
    assert other.in_flight() == 1
    assert other.acknowledge(again) == 1


def test_queue_works_with_a_client_that_decodes_replies(store_server, store):
    queue = DelayQueue(connect(store_server.endpoint, decode_responses=True), "orders")
    queue.enqueue(["a"], -1)
    assert ids_of(queue.top()) == ids_of(queue.pop()) == ["a"]


def test_discard_removes_ids_that_wait_or_are_in_flight(queue):
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
