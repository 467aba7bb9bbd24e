"""The desk: work leaves the loop, clients take turns, and too many are sent away."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from functools import partial

import gevent
import pytest

from serving.desk import Desk, Full

TIMEOUT = 30


class Work:
    """Work at a desk that holds one thread until it is let go, and notes whose work was done."""

    def __init__(self, max_waiting: int) -> None:
        self.desk = Desk(max_waiting)
        self.go_on = threading.Event()
        self.done: list[str] = []
        self.first = gevent.spawn(self.desk.run, "first", self._held)
        gevent.sleep(0)

    def _held(self) -> str:
        # In the loop's own thread nobody could set it.
        assert self.go_on.wait(TIMEOUT)
        return "held"

    def bring(self, client: str) -> gevent.Greenlet[..., None]:
        """Bring a piece of a client's work, which waits."""
        found = gevent.spawn(self.desk.run, client, partial(self.done.append, client))
        gevent.sleep(0)
        return found

    def finish(self) -> None:
        """Let all work be done."""
        self.go_on.set()
        assert self.first.get(timeout=TIMEOUT) == "held"


@pytest.fixture
def work() -> Iterator[Work]:
    found = Work(max_waiting=4)
    yield found
    found.go_on.set()
    gevent.joinall([found.first], timeout=TIMEOUT)


def test_desk_lets_the_loop_go_on_and_returns_the_result(work: Work) -> None:
    work.finish()
    assert work.desk.run("later", lambda: 7) == 7


def test_desk_raises_what_the_work_raises(work: Work) -> None:
    work.finish()
    with pytest.raises(ZeroDivisionError):
        work.desk.run("later", lambda: 1 // 0)
    assert work.desk.run("later", lambda: 7) == 7


def test_desk_serves_clients_in_turn(work: Work) -> None:
    brought = [work.bring(client) for client in ("many", "many", "many", "one")]
    work.finish()
    gevent.joinall(brought, timeout=TIMEOUT, raise_error=True)
    assert work.done == ["many", "one", "many", "many"]


def test_full_desk_sends_the_greediest_away(work: Work) -> None:
    many = [work.bring("many") for _ in range(4)]
    one = work.bring("one")
    with pytest.raises(Full):
        many[-1].get(timeout=TIMEOUT)
    with pytest.raises(Full):
        work.bring("many").get(timeout=TIMEOUT)
    work.finish()
    gevent.joinall([one, *many[:-1]], timeout=TIMEOUT, raise_error=True)
    assert work.done == ["many", "one", "many", "many"]


def test_desk_forgets_a_request_that_is_killed(work: Work) -> None:
    gone, stays = work.bring("one"), work.bring("two")
    gone.kill()
    assert work.desk.waiting() == 1
    work.finish()
    stays.get(timeout=TIMEOUT)
    assert work.done == ["two"]
