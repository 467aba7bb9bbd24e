"""Real threads at a lesson's lock on a real server, and the schedule that breaks the lesson."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

from course.lesson import find
from course.report import report

FAST = 0.005
"""Seconds between two tries, so that tests do not wait for a second."""


def one_at_a_time(make: Callable[[], Any], *, threads: int = 6, rounds: int = 5) -> None:
    """Let threads count without other protection: only the lock keeps the count right."""
    count = inside = 0
    errors: list[BaseException] = []

    def work() -> None:
        nonlocal count, inside
        try:
            for _ in range(rounds):
                lock = make()
                assert lock.acquire(30.0)
                inside += 1
                assert inside == 1, "two inside at once"
                seen = count
                time.sleep(0.001)
                count = seen + 1
                inside -= 1
                lock.release()
        except BaseException as error:
            errors.append(error)
            raise

    together(*[work] * threads)
    assert (count, errors) == (threads * rounds, [])


def together(*programs: Callable[[], None]) -> None:
    """Run programs in a thread each, until all have ended."""
    running = [threading.Thread(target=program) for program in programs]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()


def gives_up_when_taken(make: Callable[[], Any]) -> None:
    """Let one client hold the lock while another tries for a moment, and then again."""
    first, second = make(), make()
    assert first.acquire()
    assert not second.acquire(0.05)
    first.release()
    assert second.acquire(1.0)
    second.release()


def schedules(lesson: str) -> dict[str, tuple[str, ...]]:
    """Return the schedule that breaks each flaw of a lesson, in words; the fixed lock survives."""
    played = [report(scenario) for scenario in find(lesson).scenarios]
    assert all(one.as_the_text_says for one in played)
    return {one.scenario.flaw.slug: tuple(map(str, one.schedule)) for one in played}
