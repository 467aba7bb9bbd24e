"""Turns of requests in a gevent worker: a few per round, in order, and urgent ones first."""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Iterator

import gevent
import pytest
from gevent.hub import get_hub

from serving.turns import AT_ONCE, ENOUGH, Turns

MANY = 500


class Requests:
    """Requests that begin in turn; knows in which round of the loop each began."""

    def __init__(self, turns: Turns) -> None:
        self.turns = turns
        self.began: list[int] = []
        self.rounds: Counter[int] = Counter()
        self.greenlets = [gevent.spawn(self._begin, number) for number in range(MANY)]

    def _begin(self, number: int) -> None:
        self.turns.wait()
        self.began.append(number)
        self.rounds[get_hub().loop.iteration] += 1

    def finish(self) -> None:
        gevent.joinall(self.greenlets, timeout=30, raise_error=True)
        assert all(greenlet.dead for greenlet in self.greenlets)


@pytest.fixture
def turns() -> Iterator[Turns]:
    # A timer counts from the loop's last round, which may be a minute ago in a process of tests.
    get_hub().loop.update_now()
    found = Turns()
    yield found
    assert not found._waiting


def test_turns_begin_a_few_requests_per_round_in_order(
    turns: Turns,
) -> None:
    requests = Requests(turns)
    requests.finish()
    assert requests.began == list(range(MANY))
    assert max(requests.rounds.values()) == AT_ONCE


def test_turns_let_an_urgent_request_go_on_after_a_round(turns: Turns) -> None:
    """It waits for a server ten times, whose answer is there in the next round or the one after."""
    requests = Requests(turns)
    rounds = 10
    heard, said = os.pipe()

    def urgent() -> int:
        for _ in range(rounds):
            os.write(said, b"answer")
            get_hub().wait(get_hub().loop.io(heard, 1))
            os.read(heard, 6)
        return len(requests.began)

    try:
        done = gevent.spawn(urgent)
        assert done.get(timeout=30) <= AT_ONCE * 2 * rounds < MANY
        requests.finish()
    finally:
        os.close(heard)
        os.close(said)


def test_turns_give_way_during_an_urgent_request(
    turns: Turns,
) -> None:
    turns.urgent += 1
    first = get_hub().loop.iteration
    requests = Requests(turns)
    requests.finish()
    assert requests.began == list(range(MANY))
    # Without pauses the loop would turn as fast as it can: thousands of times.
    assert get_hub().loop.iteration - first < 4 * MANY


def test_large_requests_use_up_the_round(turns: Turns) -> None:
    rounds: list[int] = []

    def large() -> None:
        turns.wait()
        rounds.append(get_hub().loop.iteration)
        ended = time.perf_counter() + ENOUGH
        while time.perf_counter() < ended:
            pass

    gevent.joinall([gevent.spawn(large) for _ in range(10)], timeout=30, raise_error=True)
    assert len(set(rounds)) == 10


def test_turns_forget_a_request_that_is_killed(turns: Turns) -> None:
    requests = Requests(turns)
    gevent.sleep(0)
    ended = requests.greenlets[-10:]
    gevent.killall(ended)
    requests.finish()
    assert len(requests.began) == MANY - len(ended)


def test_turns_leave_the_loop_alone_without_requests(turns: Turns) -> None:
    Requests(turns).finish()
    for _ in range(3):
        gevent.sleep(0.001)  # at least a round
    watchers = (turns._each_round, turns._next_round, turns._later)
    assert [watcher.active for watcher in watchers] == [False] * 3
