"""The examples of docs/locks.md run as printed; docs/moving-over.md's recipes do what they say."""

import os
import re
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from redis import Redis

from locking import LockLost
from locking.backends.redis import RedisLock
from locking.backends.redis_shared import RedisReadWriteLock
from locking.tests.helpers import Task, eventually
from locking.tests.servers import Valkey

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "moving-over.md"


@pytest.fixture
def recipes(valkey: Redis) -> dict[str, Any]:
    names = {"client": valkey, "RedisLock": RedisLock, "RedisReadWriteLock": RedisReadWriteLock}
    for snippet in re.findall(r"```python\n(.*?)```", PAGE.read_text(), flags=re.DOTALL):
        exec(snippet, names)
    return names


def test_one_candidate_leads_and_another_follows_when_it_has_lost(
    recipes: dict[str, Any], valkey: Redis
):
    led: list[str] = []

    def work(host: str) -> None:
        led.append(host)
        if host == "second":
            RedisLock(valkey, "leader").force_release("the test ends")

    first = Task(recipes["lead"], valkey, "first", lambda: work("first"))
    eventually(lambda: led)
    second = Task(recipes["lead"], valkey, "second", lambda: work("second"))
    eventually(lambda: RedisLock(valkey, "leader").waiters() == 1)
    RedisLock(valkey, "leader").force_release("the test wants another")
    for leader in (first, second):
        with pytest.raises(LockLost):
            leader.result()
    assert led[-1] == "second"


def test_a_latch_opens_when_all_have_finished(recipes: dict[str, Any]):
    finished: list[int] = []
    may_finish = threading.Event()

    def work() -> None:
        may_finish.wait(20)
        finished.append(1)

    workers = [Task(recipes["do_a_part"], ident, work) for ident in recipes["passes"]]
    waiting = Task(lambda: (recipes["wait_for_all"](), len(finished))[1])
    eventually(lambda: recipes["latch"].write.waiters() == 1)
    may_finish.set()
    assert waiting.result() == 3
    for worker in workers:
        worker.result()


def test_a_barrier_lets_nobody_pass_before_all_have_arrived(recipes: dict[str, Any]):
    *early, last = recipes["passes"]
    waiting = [Task(recipes["arrive"], ident) for ident in early]
    eventually(lambda: recipes["latch"].write.waiters() == 2)
    assert all(each.is_alive() for each in waiting)
    recipes["arrive"](last)
    for each in waiting:
        each.result()


def test_the_examples_of_the_surface_run(valkey_server: Valkey):
    text = (ROOT / "docs" / "locks.md").read_text()
    blocks = re.findall(r"```python title=surface\n(.*?)```", text, flags=re.DOTALL)
    assert len(blocks) == 2
    environ = {**os.environ, "REDIS_URL": valkey_server.endpoint, "PYTHONPATH": str(ROOT)}
    words = [sys.executable, "-W", "error", "-c", "".join(blocks)]
    done = subprocess.run(words, env=environ, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert re.fullmatch(r"sold with fence \d+\nrestocked 42\nsold with fence \d+\n", done.stdout)
