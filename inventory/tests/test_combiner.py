"""The queue in the process: order, bounds, and no line or waiter left behind."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Hashable, Sequence
from contextlib import ExitStack
from functools import partial
from itertools import chain

import pytest

from inventory.outcomes import Busy, OutcomeUnknown
from inventory.selling.combiner import Combiner, _Ticket
from inventory.tests.helpers import PATIENCE, at_once, in_thread, kinds

LINE = "phone"


class Kitchen:
    """Serves wishes, one batch at a time, and only when it is let to."""

    def __init__(self) -> None:
        self.batches: list[list[int]] = []
        self.entered = threading.Semaphore(0)
        self.go_on = threading.Semaphore(0)

    def __call__(self, name: Hashable, take: Callable[[], Sequence[int]]) -> list[int | Exception]:
        self.entered.release()
        assert self.go_on.acquire(timeout=PATIENCE)
        batch = list(take())
        self.batches.append(batch)
        return [-wish for wish in batch]

    def wait_for_leader(self) -> None:
        assert self.entered.acquire(timeout=PATIENCE)


def echo(name: Hashable, take: Callable[[], Sequence[int]]) -> list[int | Exception]:
    return list(take())


def make(serve=echo, *, max_batch=100, max_waiting=100, max_wait=PATIENCE) -> Combiner[int, int]:
    return Combiner(serve, max_batch=max_batch, max_waiting=max_waiting, max_wait=max_wait)


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.001)


def longer(combiner: Combiner[int, int], than: int) -> bool:
    return combiner.waiting(LINE) > than


def queue_up(combiner, wishes, pool):
    """Queue wishes one behind the other, each on a thread; returns functions for the answers."""
    waits = []
    for wish in wishes:
        before = combiner.waiting(LINE)
        waits.append(pool.enter_context(in_thread(partial(combiner.submit, LINE, wish))))
        wait_until(partial(longer, combiner, before))
    return waits


@pytest.fixture
def pool():
    with ExitStack() as stack:
        yield stack


def test_a_lone_wish_is_served_at_once_and_its_line_is_gone():
    combiner = make()
    assert combiner.submit(LINE, 7) == 7
    assert combiner.waiting(LINE) == 0
    assert not combiner._lines


def test_who_comes_before_the_batch_is_taken_is_in_it_in_order_of_arrival(pool):
    kitchen = Kitchen()
    combiner = make(kitchen)
    waits = queue_up(combiner, range(1, 21), pool)
    kitchen.go_on.release()
    assert [wait() for wait in waits] == [-wish for wish in range(1, 21)]
    assert kitchen.batches == [list(range(1, 21))]
    assert not combiner._lines


def test_who_comes_after_the_batch_was_taken_is_in_the_next_one(pool):
    taken, go_on = threading.Event(), threading.Event()
    batches = []

    def serve(name, take):
        batches.append(list(take()))
        taken.set()
        assert go_on.wait(PATIENCE)
        return batches[-1]

    combiner = make(serve)
    first = pool.enter_context(in_thread(lambda: combiner.submit(LINE, 1)))
    assert taken.wait(PATIENCE)
    others = queue_up(combiner, [2, 3], pool)
    go_on.set()
    assert [first(), *(wait() for wait in others)] == [1, 2, 3]
    assert batches == [[1], [2, 3]]


def test_no_batch_is_larger_than_the_bound_and_the_next_in_line_leads_the_next(pool):
    kitchen = Kitchen()
    combiner = make(kitchen, max_batch=3)
    waits = queue_up(combiner, range(1, 9), pool)
    for _ in range(3):
        kitchen.go_on.release()
    assert [wait() for wait in waits] == [-wish for wish in range(1, 9)]
    assert kitchen.batches == [[1, 2, 3], [4, 5, 6], [7, 8]]


def test_taking_twice_does_not_exceed_the_bound(pool):
    def serve(name, take):
        first = list(take())
        assert list(take()) == first
        return first

    combiner = make(serve, max_batch=1)
    assert combiner.submit(LINE, 5) == 5


def test_a_full_line_refuses_at_once_and_serves_those_who_wait(pool):
    kitchen = Kitchen()
    combiner = make(kitchen, max_waiting=3)
    waits = queue_up(combiner, [1, 2, 3], pool)
    with pytest.raises(Busy, match="3 are waiting"):
        combiner.submit(LINE, 4)
    kitchen.go_on.release()
    assert [wait() for wait in waits] == [-1, -2, -3]
    assert kitchen.batches == [[1, 2, 3]]


def test_who_waited_too_long_is_refused_and_never_served(pool):
    kitchen = Kitchen()
    combiner = make(kitchen, max_wait=0.02)
    leader, late = queue_up(combiner, [1, 2], pool)
    time.sleep(0.05)  # longer than the wait allowed: this is what is being tested
    kitchen.go_on.release()
    assert leader() == -1
    with pytest.raises(Busy, match="did not move"):
        late()
    assert kitchen.batches == [[1]]
    assert not combiner._lines


def test_a_leader_is_served_however_long_it_took_to_take_the_batch():
    def slow(name, take):
        time.sleep(0.05)
        return take()

    assert make(slow, max_wait=0.01).submit(LINE, 1) == 1


def test_a_leader_that_fails_before_taking_keeps_its_failure_to_itself(pool):
    entered, go_on = threading.Event(), threading.Event()
    failures = iter([True, False])

    def serve(name, take):
        if next(failures):
            entered.set()
            assert go_on.wait(PATIENCE)
            raise ConnectionError("no lock")
        return take()

    combiner = make(serve)
    leader, *others = queue_up(combiner, [1, 2, 3], pool)
    assert entered.wait(PATIENCE)
    go_on.set()
    with pytest.raises(ConnectionError, match="no lock"):
        leader()
    assert [wait() for wait in others] == [2, 3]
    assert not combiner._lines


def test_a_leader_that_fails_after_taking_tells_its_whole_batch_and_nobody_else(pool):
    batches = []
    ready = threading.Semaphore(0)

    def serve(name, take):
        assert ready.acquire(timeout=PATIENCE)
        batches.append(list(take()))
        if len(batches) == 1:
            raise ValueError("poison")
        return batches[-1]

    combiner = make(serve, max_batch=2)
    waits = queue_up(combiner, [1, 2, 3], pool)
    ready.release(2)
    for wait in waits[:2]:
        with pytest.raises(ValueError, match="poison"):
            wait()
    assert waits[2]() == 3
    assert not combiner._lines


def test_when_the_leading_thread_is_ended_its_batch_is_told_unknown_and_the_line_goes_on(pool):
    batches = []
    ready = threading.Semaphore(0)

    def serve(name, take):
        assert ready.acquire(timeout=PATIENCE)
        batches.append(list(take()))
        if len(batches) == 1:
            raise KeyboardInterrupt
        return batches[-1]

    combiner = make(serve, max_batch=2)
    leader, follower, third = queue_up(combiner, [1, 2, 3], pool)
    ready.release(2)
    with pytest.raises(KeyboardInterrupt):
        leader()
    with pytest.raises(OutcomeUnknown, match="ended"):
        follower()
    assert third() == 3
    assert not combiner._lines


class Ended(BaseException):
    """What ends a thread or a greenlet from outside."""


class EndedWhileWaiting:
    """A ticket's turn whose thread is ended instead of getting it."""

    def __init__(self, when: threading.Event) -> None:
        self.when = when

    def acquire(self) -> None:
        assert self.when.wait(PATIENCE)
        raise Ended

    def release(self) -> None:
        """Nobody is there any more to be let go."""


@pytest.mark.parametrize("given_the_lead", [False, True])
def test_who_is_ended_while_waiting_leaves_the_line_to_the_others(
    given_the_lead, pool, monkeypatch
):
    served, end = [], threading.Event()
    make_ticket = _Ticket.__init__

    def make_ticket_to_be_ended(ticket, wish):
        make_ticket(ticket, wish)
        if wish == 2:
            ticket.turn = EndedWhileWaiting(end)

    monkeypatch.setattr(_Ticket, "__init__", make_ticket_to_be_ended)
    go_on = threading.Semaphore(0)

    def serve(name, take):
        assert go_on.acquire(timeout=PATIENCE)
        served.append(list(take()))
        return served[-1]

    combiner = make(serve, max_batch=1)
    leader, ended, last = queue_up(combiner, [1, 2, 3], pool)
    if given_the_lead:
        go_on.release()
        assert leader() == 1
    end.set()
    with pytest.raises(Ended):
        ended()
    go_on.release(2)
    assert (leader(), last()) == (1, 3)
    assert served == [[1], [3]]
    assert not combiner._lines


def test_an_exception_among_the_answers_is_for_its_own_wish_only(pool):
    ready = threading.Event()

    def serve(name, take):
        assert ready.wait(PATIENCE)
        return [ValueError(wish) if wish == 2 else wish for wish in take()]

    combiner = make(serve)
    one, two, three = queue_up(combiner, [1, 2, 3], pool)
    ready.set()
    assert one() == 1
    with pytest.raises(ValueError, match="2"):
        two()
    assert three() == 3


@pytest.mark.parametrize("answers", [[], [1, 2]])
def test_a_wrong_number_of_answers_is_unknown_and_not_somebody_elses(answers):
    combiner = make(lambda name, take: (take(), answers)[1])
    with pytest.raises(OutcomeUnknown, match=f"{len(answers)} answers for 1"):
        combiner.submit(LINE, 1)


def test_serving_without_taking_is_unknown_and_leaves_no_line():
    combiner = make(lambda name, take: [])
    with pytest.raises(OutcomeUnknown):
        combiner.submit(LINE, 1)
    assert not combiner._lines


def test_lines_of_different_names_do_not_wait_for_each_other(pool):
    kitchen = Kitchen()
    combiner = make(lambda name, take: kitchen(name, take) if name == LINE else echo(name, take))
    held = pool.enter_context(in_thread(lambda: combiner.submit(LINE, 1)))
    kitchen.wait_for_leader()
    assert combiner.submit("another", 2) == 2
    kitchen.go_on.release()
    assert held() == -1


def test_thousands_of_wishes_on_many_threads_are_each_served_exactly_once():
    served: list[int] = []
    leading = threading.Lock()

    def serve(name, take):
        assert leading.acquire(blocking=False), "two leaders at once"
        batch = list(take())
        served.extend(batch)
        leading.release()
        return [wish * 2 for wish in batch]

    combiner = make(serve, max_batch=64, max_waiting=10_000)

    def ask_for(wishes: range) -> list[int]:
        return [combiner.submit(LINE, wish) for wish in wishes]

    answers = at_once([partial(ask_for, range(n, 20_000, 200)) for n in range(200)])
    assert kinds(answers) == {"list": 200}
    assert sorted(chain.from_iterable(answers)) == list(range(0, 40_000, 2))
    assert sorted(served) == list(range(20_000))
    assert not combiner._lines


def test_two_thousand_threads_at_once_all_get_their_own_answer():
    combiner = make(max_waiting=10_000)
    answers = at_once([partial(combiner.submit, LINE, wish) for wish in range(2000)])
    assert answers == list(range(2000))
    assert not combiner._lines
