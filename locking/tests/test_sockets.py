"""Spinning: an answer is looked for a moment before the thread sleeps, where that pays."""

from __future__ import annotations

import socket
import subprocess
import sys

from locking.backends._sockets import is_cooperative
from locking.backends.redis_transport import MAX_SKIPPED, Spinner
from locking.tests.needs import GEVENT, needs


class Answer:
    """There after so many looks; counts them."""

    def __init__(self, after: float) -> None:
        self.after = after
        self.looks = 0

    def is_there(self, seconds: float) -> bool:
        self.looks += 1
        return self.looks > self.after


def test_spinning_ends_with_the_answer():
    answer = Answer(after=0)
    Spinner(answer.is_there).spin()
    assert answer.looks == 1


def looks(spinner: Spinner, answer: Answer, commands: int) -> int:
    """In how many of these commands the answer was looked for."""
    spun = 0
    for _ in range(commands):
        before = answer.looks
        spinner.spin()
        spun += answer.looks > before
    return spun


def test_a_slow_server_is_hardly_ever_spun_for():
    answer = Answer(after=float("inf"))
    assert looks(Spinner(answer.is_there), answer, 10 * MAX_SKIPPED) < 20


def test_spinning_resumes_soon_after_one_late_answer():
    answer = Answer(after=float("inf"))
    spinner = Spinner(answer.is_there)
    spinner.spin()
    answer.after = 0
    assert looks(spinner, answer, 100) == 98


def test_a_suspended_spinner_skips_many_commands():
    answer = Answer(after=0)
    spinner = Spinner(answer.is_there)
    spinner.suspend()
    assert looks(spinner, answer, MAX_SKIPPED) == 0
    assert looks(spinner, answer, 10) == 10


@needs(GEVENT)
def test_a_greenlet_does_not_spin():
    with socket.socket() as plain:
        assert not is_cooperative(plain)
    code = (
        "import gevent.monkey; gevent.monkey.patch_all()\n"
        "import socket\n"
        "from locking.backends._sockets import is_cooperative\n"
        "assert is_cooperative(socket.socket())\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
