"""The queue in the process: order, bounds, and no line or waiter left behind."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Hashable
from contextlib import ExitStack
from functools import partial
from itertools import chain

import pytest

from inventory.outcomes import Busy, OutcomeUnknown
from inventory.selling.combiner import Combiner, Drain, _Waiting
from inventory.tests.helpers import PATIENCE, at_once, in_thread, kinds

LINE = "phone"


class GatedHandler:
    """Answers requests with their negatives, one batch at a time, and only when it is let to."""

    def __init__(self) -> None:
        self.batches: list[list[int]] = []
        self.entered = threading.Semaphore(0)
        self.go_on = threading.Semaphore(0)

    def __call__(self, name: Hashable, drain: Drain[int, int]) -> None:
        self.entered.release()
        assert self.go_on.acquire(timeout=PATIENCE)
        self.batches.append(answer(drain, lambda request: -request))

    def wait_for_leader(self) -> None:
        assert self.entered.acquire(timeout=PATIENCE)


def answer(
    drain: Drain[int, int], compute: Callable[[int], int | Exception] = lambda request: request
) -> list[int]:
    """Drain the line and answer each ticket; returns the requests."""
    tickets = drain()
    for ticket in tickets:
        ticket.answer = compute(ticket.request)
    return [ticket.request for ticket in tickets]


def echo(name: Hashable, drain: Drain[int, int]) -> None:
    answer(drain)


def make(handler=echo, *, max_batch=100, max_waiting=100, max_wait=PATIENCE) -> Combiner[int, int]:
    return Combiner(handler, max_batch=max_batch, max_waiting=max_waiting, max_wait=max_wait)


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.001)


def longer(combiner: Combiner[int, int], than: int) -> bool:
    return combiner.waiting(LINE) > than


def queue_up(combiner, requests, pool):
    """Queue requests one behind the other, each on a thread; returns functions for the answers."""
    waits = []
    for request in requests:
        before = combiner.waiting(LINE)
        waits.append(pool.enter_context(in_thread(partial(combiner.submit, LINE, request))))
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
    gated = GatedHandler()
    combiner = make(gated)
    waits = queue_up(combiner, range(1, 21), pool)
    gated.go_on.release()
    assert [wait() for wait in waits] == [-request for request in range(1, 21)]
    assert gated.batches == [list(range(1, 21))]
    assert not combiner._lines


def test_who_comes_after_the_batch_was_taken_is_in_the_next_one(pool):
    taken, go_on = threading.Event(), threading.Event()
    batches = []

    def handle(name, drain):
        batches.append(answer(drain))
        taken.set()
        assert go_on.wait(PATIENCE)

    combiner = make(handle)
    first = pool.enter_context(in_thread(lambda: combiner.submit(LINE, 1)))
    assert taken.wait(PATIENCE)
    others = queue_up(combiner, [2, 3], pool)
    go_on.set()
    assert [first(), *(wait() for wait in others)] == [1, 2, 3]
    assert batches == [[1], [2, 3]]


def test_no_batch_is_larger_than_the_bound_and_the_next_in_line_leads_the_next(pool):
    gated = GatedHandler()
    combiner = make(gated, max_batch=3)
    waits = queue_up(combiner, range(1, 9), pool)
    for _ in range(3):
        gated.go_on.release()
    assert [wait() for wait in waits] == [-request for request in range(1, 9)]
    assert gated.batches == [[1, 2, 3], [4, 5, 6], [7, 8]]


def test_taking_twice_does_not_exceed_the_bound(pool):
    def handle(name, drain):
        first = answer(drain)
        assert answer(drain) == first

    combiner = make(handle, max_batch=1)
    assert combiner.submit(LINE, 5) == 5


def test_a_full_line_refuses_at_once_and_serves_those_who_wait(pool):
    gated = GatedHandler()
    combiner = make(gated, max_waiting=3)
    waits = queue_up(combiner, [1, 2, 3], pool)
    with pytest.raises(Busy, match="3 are waiting"):
        combiner.submit(LINE, 4)
    gated.go_on.release()
    assert [wait() for wait in waits] == [-1, -2, -3]
    assert gated.batches == [[1, 2, 3]]


def test_who_waited_too_long_is_refused_and_never_served(pool):
    gated = GatedHandler()
    combiner = make(gated, max_wait=0.02)
    leader, late = queue_up(combiner, [1, 2], pool)
    time.sleep(0.05)  # longer than the wait allowed: this is what is being tested
    gated.go_on.release()
    assert leader() == -1
    with pytest.raises(Busy, match="did not move"):
        late()
    assert gated.batches == [[1]]
    assert not combiner._lines


def test_a_leader_is_served_however_long_it_took_to_take_the_batch():
    def slow(name, drain):
        time.sleep(0.05)
        answer(drain)

    assert make(slow, max_wait=0.01).submit(LINE, 1) == 1


def test_a_leader_that_fails_before_taking_keeps_its_failure_to_itself(pool):
    entered, go_on = threading.Event(), threading.Event()
    failures = iter([True, False])

    def handle(name, drain):
        if next(failures):
            entered.set()
            assert go_on.wait(PATIENCE)
            raise ConnectionError("no lock")
        answer(drain)

    combiner = make(handle)
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
    poison = ValueError("poison")

    def handle(name, drain):
        assert ready.acquire(timeout=PATIENCE)
        batches.append(answer(drain))
        if len(batches) == 1:
            raise poison

    combiner = make(handle, max_batch=2)
    waits = queue_up(combiner, [1, 2, 3], pool)
    ready.release(2)
    told = []
    for wait in waits[:2]:
        with pytest.raises(ValueError, match="poison") as caught:
            wait()
        told.append(caught.value)
    # Each thread raises an exception of its own, since raising one writes to it.
    assert len({id(error) for error in [*told, poison]}) == 3
    assert [error.__cause__ for error in told] == [poison, poison]
    assert waits[2]() == 3
    assert not combiner._lines


def test_when_the_leading_thread_is_ended_its_batch_is_told_unknown_and_the_line_goes_on(pool):
    batches = []
    ready = threading.Semaphore(0)

    def handle(name, drain):
        assert ready.acquire(timeout=PATIENCE)
        batches.append(answer(drain))
        if len(batches) == 1:
            raise KeyboardInterrupt

    combiner = make(handle, max_batch=2)
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
    make_ticket = _Waiting.__init__

    def make_ticket_to_be_ended(ticket, request):
        make_ticket(ticket, request)
        if request == 2:
            ticket.turn = EndedWhileWaiting(end)

    monkeypatch.setattr(_Waiting, "__init__", make_ticket_to_be_ended)
    go_on = threading.Semaphore(0)

    def handle(name, drain):
        assert go_on.acquire(timeout=PATIENCE)
        served.append(answer(drain))

    combiner = make(handle, max_batch=1)
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

    def handle(name, drain):
        assert ready.wait(PATIENCE)
        answer(drain, lambda request: ValueError(request) if request == 2 else request)

    combiner = make(handle)
    one, two, three = queue_up(combiner, [1, 2, 3], pool)
    ready.set()
    assert one() == 1
    with pytest.raises(ValueError, match="2"):
        two()
    assert three() == 3


def test_a_ticket_without_an_answer_is_unknown_and_the_others_have_theirs(pool):
    ready = threading.Event()

    def handle(name, drain):
        assert ready.wait(PATIENCE)
        for ticket in drain():
            if ticket.request != 2:
                ticket.answer = ticket.request

    one, two, three = queue_up(make(handle), [1, 2, 3], pool)
    ready.set()
    assert (one(), three()) == (1, 3)
    with pytest.raises(OutcomeUnknown, match="not answered"):
        two()


def test_an_error_that_cannot_be_copied_still_answers_the_whole_batch(pool):
    class Odd(Exception):
        def __new__(cls, *, only_by_name):
            return super().__new__(cls, only_by_name)

        def __init__(self, *, only_by_name):
            super().__init__(only_by_name)

    ready = threading.Event()

    def handle(name, drain):
        assert ready.wait(PATIENCE)
        drain()
        raise Odd(only_by_name="x")

    waits = queue_up(make(handle), [1, 2], pool)
    ready.set()
    for wait in waits:
        with pytest.raises(OutcomeUnknown, match="Odd"):
            wait()


def test_a_handler_that_drains_nothing_is_unknown_and_leaves_no_line():
    combiner = make(lambda name, drain: None)
    with pytest.raises(OutcomeUnknown):
        combiner.submit(LINE, 1)
    assert not combiner._lines


def test_lines_of_different_names_do_not_wait_for_each_other(pool):
    gated = GatedHandler()
    combiner = make(lambda name, drain: (gated if name == LINE else echo)(name, drain))
    held = pool.enter_context(in_thread(lambda: combiner.submit(LINE, 1)))
    gated.wait_for_leader()
    assert combiner.submit("another", 2) == 2
    gated.go_on.release()
    assert held() == -1


def test_thousands_of_wishes_on_many_threads_are_each_served_exactly_once():
    served: list[int] = []
    leading = threading.Lock()

    def handle(name, drain):
        assert leading.acquire(blocking=False), "two leaders at once"
        served.extend(answer(drain, lambda request: request * 2))
        leading.release()

    combiner = make(handle, max_batch=64, max_waiting=10_000)

    def ask_for(requests: range) -> list[int]:
        return [combiner.submit(LINE, request) for request in requests]

    answers = at_once([partial(ask_for, range(n, 20_000, 200)) for n in range(200)])
    assert kinds(answers) == {"list": 200}
    assert sorted(chain.from_iterable(answers)) == list(range(0, 40_000, 2))
    assert sorted(served) == list(range(20_000))
    assert not combiner._lines


def test_two_thousand_threads_at_once_all_get_their_own_answer():
    combiner = make(max_waiting=10_000)
    answers = at_once([partial(combiner.submit, LINE, request) for request in range(2000)])
    assert answers == list(range(2000))
    assert not combiner._lines
