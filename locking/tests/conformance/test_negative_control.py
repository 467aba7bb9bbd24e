"""The exclusion test must be able to fail: without a lock it does."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

from locking.tests.conformance.backends import RedisOnValkey
from locking.tests.conformance.clients import Client


def test_processes_without_a_lock_lose_counts_and_meet_each_other(tmp_path: Path) -> None:
    counter = tmp_path / "counter"
    counter.write_text("0")
    with ExitStack() as running:
        # The lock's handle connects to nothing before it is used.
        clients = [
            running.enter_context(Client(RedisOnValkey.name, ["redis://127.0.0.1:1"], "unused"))
            for _ in range(4)
        ]
        for one in clients:
            one.begin("count", 500, str(counter), False)
        intruders = sum(one.answer()[0] for one in clients)
    assert intruders > 0
    assert int(counter.read_text()) < 4 * 500
