"""The queue in the process: order, bounds, and no queue or waiter left behind."""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Callable, Hashable, Sequence
from contextlib import ExitStack
from functools import partial
from itertools import chain
from typing import Any

import pytest

from inventory.outcomes import Busy, OutcomeUnknown, Ticket
from inventory.selling.queue import CombiningQueue, Turn
from inventory.tests.helpers import TIMEOUT, at_once, in_thread, kinds
from locking.tests.helpers import eventually

ITEM = "phone"

Drain = Callable[[], Sequence[Ticket[int, int]]]
Handler = Callable[[Hashable, Drain], object]


class Served(CombiningQueue[int, int]):
    """A queue whose leaders call a handler with its name and the function that drains it."""

    def __init__(self, handler: Handler, **limits: Any) -> None:
        super().__init__(**{"max_batch": 100, "max_waiting": 100, "max_wait": TIMEOUT, **limits})
        self.handler = handler

    def submit(self, name: Hashable, request: int) -> int:
        turn = self.enter(name, request)
        if turn.leads:
            with turn:
                self.handler(name, turn.drain)
        return turn.result()


def answer(
    drain: Drain, compute: Callable[[int], int | Exception] = lambda request: -request
) -> list[int]:
    """Drain the queue and answer each ticket, with its negative by default; return the requests."""
    tickets = drain()
    for ticket in tickets:
        ticket.answer = compute(ticket.request)
    return [ticket.request for ticket in tickets]


class GatedHandler:
    """Serves one batch each time that `go_on` is released."""

    def __init__(self, serve: Callable[[Drain], list[int]] = answer) -> None:
        self.serve = serve
        self.batches: list[list[int]] = []
        self.go_on = threading.Semaphore(0)

    def __call__(self, name: Hashable, drain: Drain) -> None:
        assert self.go_on.acquire(timeout=TIMEOUT)
        self.batches.append(self.serve(drain))


def first_fails(error: BaseException, *, drained: bool) -> Callable[[Drain], list[int]]:
    """Serve all batches but the first, which fails before or after it has been drained."""
    failures = iter([error])

    def serve(drain: Drain) -> list[int]:
        failure = next(failures, None)
        served = answer(drain) if drained or not failure else []
        if failure:
            raise failure
        return served

    return serve


def negate(name: Hashable, drain: Drain) -> None:
    answer(drain)


def reached(queue: Served, length: int) -> bool:
    return queue.waiting(ITEM) >= length


def queue_up(queue, requests, pool):
    """Queue requests in order, each on a thread; return functions that wait for the answers."""
    waits = []
    for place, request in enumerate(requests, queue.waiting(ITEM) + 1):
        waits.append(pool.enter_context(in_thread(partial(queue.submit, ITEM, request))))
        eventually(partial(reached, queue, place))
    return waits


@pytest.fixture
def pool():
    with ExitStack() as stack:
        yield stack


@pytest.mark.parametrize(("max_batch", "sizes"), [(20, [20]), (8, [8, 8, 4])])
def test_batch_has_all_requests_before_the_drain_in_order(max_batch, sizes, pool):
    """No batch is larger than the bound; the next request leads the next."""
    gated = GatedHandler()
    queue = Served(gated, max_batch=max_batch)
    requests = range(1, 21)
    waits = queue_up(queue, requests, pool)
    gated.go_on.release(len(sizes))
    assert [wait() for wait in waits] == [-request for request in requests]
    assert [len(batch) for batch in gated.batches] == sizes
    assert list(chain.from_iterable(gated.batches)) == list(requests)
    assert not queue.lines


def test_requests_after_the_drain_are_in_the_next_batch(pool):
    taken, go_on = threading.Event(), threading.Event()
    batches = []

    def handle(name, drain):
        batches.append(answer(drain))
        taken.set()
        assert go_on.wait(TIMEOUT)

    queue = Served(handle)
    first = pool.enter_context(in_thread(lambda: queue.submit(ITEM, 1)))
    assert taken.wait(TIMEOUT)
    others = queue_up(queue, [2, 3], pool)
    go_on.set()
    assert [first(), *(wait() for wait in others)] == [-1, -2, -3]
    assert batches == [[1], [2, 3]]


def test_draining_twice_does_not_exceed_the_bound():
    def handle(name, drain):
        first = answer(drain)
        assert answer(drain) == first

    assert Served(handle, max_batch=1).submit(ITEM, 5) == -5


def test_queue_refuses_when_full_and_serves_the_waiting(pool):
    gated = GatedHandler()
    queue = Served(gated, max_waiting=3)
    waits = queue_up(queue, [1, 2, 3], pool)
    with pytest.raises(Busy, match="3 are waiting"):
        queue.submit(ITEM, 4)
    gated.go_on.release()
    assert [wait() for wait in waits] == [-1, -2, -3]
    assert gated.batches == [[1, 2, 3]]


def test_request_that_waited_too_long_is_refused(pool):
    gated = GatedHandler()
    queue = Served(gated, max_wait=0.02)
    leader, late = queue_up(queue, [1, 2], pool)
    time.sleep(0.05)  # longer than max_wait
    gated.go_on.release()
    assert leader() == -1
    with pytest.raises(Busy, match="did not move"):
        late()
    assert gated.batches == [[1]]
    assert not queue.lines


def test_leader_is_served_however_long_it_waited():
    def slow(name, drain):
        time.sleep(0.05)
        answer(drain)

    assert Served(slow, max_wait=0.01).submit(ITEM, 1) == -1


def test_leader_that_fails_before_draining_fails_alone(pool):
    gated = GatedHandler(first_fails(ConnectionError("no lock"), drained=False))
    queue = Served(gated)
    leader, *others = queue_up(queue, [1, 2, 3], pool)
    gated.go_on.release(2)
    with pytest.raises(ConnectionError, match="no lock"):
        leader()
    assert [wait() for wait in others] == [-2, -3]
    assert not queue.lines


def test_leader_that_fails_after_draining_fails_its_batch(pool):
    poison = ValueError("poison")
    gated = GatedHandler(first_fails(poison, drained=True))
    queue = Served(gated, max_batch=2)
    *batch, third = queue_up(queue, [1, 2, 3], pool)
    gated.go_on.release(2)
    raised = []
    for wait in batch:
        with pytest.raises(ValueError, match="poison") as caught:
            wait()
        raised.append(caught.value)
    # Each thread raises its own exception, because raising modifies it.
    assert len({id(error) for error in [*raised, poison]}) == 3
    assert [error.__cause__ for error in raised] == [poison, poison]
    assert third() == -3
    assert not queue.lines


def test_leader_ended_after_draining_answers_its_batch_unknown(pool):
    gated = GatedHandler(first_fails(KeyboardInterrupt(), drained=True))
    queue = Served(gated, max_batch=2)
    leader, follower, third = queue_up(queue, [1, 2, 3], pool)
    gated.go_on.release(2)
    with pytest.raises(KeyboardInterrupt):
        leader()
    with pytest.raises(OutcomeUnknown, match="ended"):
        follower()
    assert third() == -3
    assert not queue.lines


class Ended(BaseException):
    """Ends a thread or a greenlet from outside."""


class EndedWhileWaiting:
    """A lock whose waiter is ended instead of acquiring it."""

    def __init__(self, when: threading.Event) -> None:
        self.when = when

    def acquire(self) -> None:
        assert self.when.wait(TIMEOUT)
        raise Ended

    def release(self) -> None:
        """Do nothing: the waiter is gone."""


@pytest.fixture
def end(monkeypatch):
    """Return the event that ends the request 2 while it waits."""
    end = threading.Event()
    make_turn = Turn.__init__

    def make_turn_to_be_ended(turn, queue, line, request):
        make_turn(turn, queue, line, request)
        if request == 2:
            turn.woken = EndedWhileWaiting(end)

    monkeypatch.setattr(Turn, "__init__", make_turn_to_be_ended)
    return end


@pytest.mark.parametrize("given_the_lead", [False, True])
def test_request_ended_while_waiting_leaves_the_queue(given_the_lead, pool, end):
    gated = GatedHandler()
    queue = Served(gated, max_batch=1)
    leader, ended, last = queue_up(queue, [1, 2, 3], pool)
    if given_the_lead:
        gated.go_on.release()
        assert leader() == -1
    end.set()
    with pytest.raises(Ended):
        ended()
    gated.go_on.release(2)
    assert (leader(), last()) == (-1, -3)
    assert gated.batches == [[1], [3]]
    assert not queue.lines


def test_request_ended_after_its_answer_keeps_a_new_line(pool, end):
    gated = GatedHandler()
    queue = Served(gated)
    leader, ended = queue_up(queue, [1, 2], pool)
    gated.go_on.release()
    assert leader() == -1
    [last] = queue_up(queue, [3], pool)
    end.set()
    with pytest.raises(Ended):
        ended()
    assert queue.waiting(ITEM) == 1
    gated.go_on.release()
    assert last() == -3
    assert not queue.lines


@pytest.mark.parametrize(
    ("given", "error", "text"),
    [(ValueError("bad"), ValueError, "bad"), (None, OutcomeUnknown, "not answered")],
    ids=["an exception", "no answer"],
)
def test_failed_answer_is_for_its_own_request_only(given, error, text, pool):
    def serve(drain):
        return answer(drain, lambda request: given if request == 2 else request)

    gated = GatedHandler(serve)
    one, two, three = queue_up(Served(gated), [1, 2, 3], pool)
    gated.go_on.release()
    assert (one(), three()) == (1, 3)
    with pytest.raises(error, match=text):
        two()


def test_error_that_cannot_be_copied_answers_the_whole_batch(pool):
    class Odd(Exception):
        def __new__(cls, *, only_by_name):
            return super().__new__(cls, only_by_name)

        def __init__(self, *, only_by_name):
            super().__init__(only_by_name)

    gated = GatedHandler(first_fails(Odd(only_by_name="x"), drained=True))
    waits = queue_up(Served(gated), [1, 2], pool)
    gated.go_on.release()
    for wait in waits:
        with pytest.raises(OutcomeUnknown, match="Odd"):
            wait()


def test_handler_that_drains_nothing_is_unknown():
    queue = Served(lambda name, drain: None)
    with pytest.raises(OutcomeUnknown):
        queue.submit(ITEM, 1)
    assert not queue.lines


def test_queue_serves_thousands_of_requests_exactly_once():
    served: list[int] = []
    leading = threading.Lock()

    def handle(name, drain):
        assert leading.acquire(blocking=False), "two leaders at once"
        served.extend(answer(drain, lambda request: request * 2))
        leading.release()

    queue = Served(handle, max_batch=64, max_waiting=10_000)

    def ask_for(requests: range) -> list[int]:
        return [queue.submit(ITEM, request) for request in requests]

    answers = at_once([partial(ask_for, range(n, 20_000, 200)) for n in range(200)])
    assert kinds(answers) == {"list": 200}
    assert sorted(chain.from_iterable(answers)) == list(range(0, 40_000, 2))
    assert sorted(served) == list(range(20_000))
    assert not queue.lines


# --- one leader for the short lines of several names ---------------------------------------------


class Crowd:
    """Requests for several names; each name's batch is served when its gate is opened.

    Attributes:
        batches: the requests that were served together, by the name whose leader served them.
    """

    def __init__(self, pool: ExitStack, **limits: int) -> None:
        self.gates: defaultdict[Hashable, threading.Semaphore] = defaultdict(
            partial(threading.Semaphore, 0)
        )
        self.batches: list[tuple[Hashable, list[int]]] = []
        self.queue = Served(self._serve, **{"few": 2, "max_weight": 3, **limits})
        self._pool = pool
        self._waits: list[Callable[[], int]] = []

    def _serve(self, name: Hashable, drain: Drain) -> None:
        assert self.gates[name].acquire(timeout=TIMEOUT)
        self.batches.append((name, answer(drain)))

    def come(self, *names: Hashable) -> None:
        """Queue a request for each name; they are numbered from 1 on."""
        for name in names:
            number = len(self._waits) + 1
            before = self.queue.waiting(name)
            ask = partial(self.queue.submit, name, number)
            self._waits.append(self._pool.enter_context(in_thread(ask)))
            eventually(partial(self._has, name, before + 1))

    def _has(self, name: Hashable, waiting: int) -> bool:
        return self.queue.waiting(name) == waiting

    def _has_served(self, batches: int) -> bool:
        return len(self.batches) >= batches

    def go_on(self, *names: Hashable) -> None:
        """Let the leaders of lines serve their next batch, one after the other."""
        for name in names:
            served = len(self.batches)
            self.gates[name].release()
            eventually(partial(self._has_served, served + 1))

    def wait_for(self, number: int) -> int:
        """Return the answer to a request."""
        return self._waits[number - 1]()

    def all_answered(self) -> bool:
        numbers = range(1, len(self._waits) + 1)
        return [self.wait_for(number) for number in numbers] == [-number for number in numbers]


def test_short_lines_are_served_together_while_another_is_led(pool):
    crowd = Crowd(pool)
    crowd.come("A", "B", "C", "B", "D")
    crowd.go_on("B", "A")
    assert crowd.all_answered()
    assert crowd.batches == [("B", [2, 4, 3, 5]), ("A", [1])]
    assert not crowd.queue.lines


def test_line_that_is_no_longer_short_gets_a_leader_of_its_own(pool):
    crowd = Crowd(pool)
    crowd.come("A", "B", "C", "C", "C")
    crowd.go_on("C", "B", "A")
    assert crowd.all_answered()
    assert crowd.batches == [("C", [3, 4, 5]), ("B", [2]), ("A", [1])]


def test_lines_served_together_have_a_bounded_weight(pool):
    crowd = Crowd(pool)
    crowd.come("A", "B", "C", "D", "E", "F")
    crowd.go_on("B", "E", "A")
    assert crowd.all_answered()
    assert crowd.batches == [("B", [2, 3, 4]), ("E", [5, 6]), ("A", [1])]


def test_last_short_line_is_led_alone(pool):
    crowd = Crowd(pool, max_weight=2)
    crowd.come("A", "B", "C", "D")
    [of_b, of_d] = [crowd.queue.lines[name].waiting[0] for name in ("B", "D")]
    crowd.go_on("A", "B", "D")
    assert crowd.all_answered()
    assert crowd.batches == [("A", [1]), ("B", [2, 3]), ("D", [4])]
    assert [turn.together for turn in (of_b, of_d)] == [True, False]


@pytest.mark.parametrize("given_the_lead", [False, True])
def test_request_ended_in_a_short_line_leaves_it_to_the_others(given_the_lead, pool, monkeypatch):
    end = threading.Event()
    make_turn = Turn.__init__

    def make_turn_to_be_ended(turn, queue, line, request):
        make_turn(turn, queue, line, request)
        if request == 3:
            turn.woken = EndedWhileWaiting(end)

    monkeypatch.setattr(Turn, "__init__", make_turn_to_be_ended)
    crowd = Crowd(pool, max_weight=1)
    crowd.come("A", "B", "C", "D")
    if given_the_lead:
        crowd.go_on("B")
    end.set()
    with pytest.raises(Ended):
        crowd.wait_for(3)
    crowd.go_on(*(["D", "A"] if given_the_lead else ["B", "D", "A"]))
    assert [crowd.wait_for(number) for number in (1, 2, 4)] == [-1, -2, -4]
    assert not crowd.queue.lines


def test_queue_serves_many_names_exactly_once():
    served: list[int] = []
    leading = [threading.Lock() for _ in range(20)]

    def handle(name, drain):
        requests = answer(drain)
        names = {request % 20 for request in requests}
        for name in sorted(names):
            assert leading[name].acquire(blocking=False), "two leaders of a line at once"
        served.extend(requests)
        for name in names:
            leading[name].release()

    queue = Served(handle, max_batch=64, max_waiting=10_000, few=4, max_weight=8)

    def ask_for(requests: range) -> list[int]:
        return [queue.submit(request % 20, request) for request in requests]

    answers = at_once([partial(ask_for, range(n, 10_000, 100)) for n in range(100)])
    assert kinds(answers) == {"list": 100}
    assert sorted(chain.from_iterable(answers)) == sorted(-n for n in range(10_000))
    assert sorted(served) == list(range(10_000))
    assert not queue.lines
