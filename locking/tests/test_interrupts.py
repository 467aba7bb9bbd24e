"""Exceptions of signals at any moment: Ctrl-C, Celery's soft time limit."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time
import warnings
from typing import Any

import pytest
from redis import Redis

from locking.redis_client import connect
from locking.redis_lock import RedisLock

ROUNDS = 2000


class SoftTimeLimit(Exception):
    pass


@pytest.mark.long
@pytest.mark.parametrize("seed", [2, 4])
def test_interrupts_leave_no_lease_that_is_renewed(store_server: Any, seed: int) -> None:
    """In a process of its own: an exception may also come while pytest does something."""
    done = subprocess.run(
        [sys.executable, "-m", __name__, store_server.endpoint, str(seed)],
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.stdout.strip() == "all is well", f"{done.stdout}\n{done.stderr}"


def main(url: str, seed: int) -> None:
    """Interrupt `with lock:` again and again; the handles live on, as a module's globals do."""
    warnings.simplefilter("ignore", ResourceWarning)
    sys.unraisablehook = lambda unraisable: None  # where Python cannot raise, it says so

    def alarm(number: int, frame: Any) -> None:
        raise SoftTimeLimit

    signal.signal(signal.SIGALRM, alarm)
    chance = random.Random(seed)
    client, admin = connect(url), Redis.from_url(url)
    left: list[RedisLock] = []
    hits, lock = 0, RedisLock(client, f"{seed}-0", lease=1)
    for _ in range(ROUNDS):
        try:
            signal.setitimer(signal.ITIMER_REAL, chance.uniform(30e-6, 900e-6))
            with lock:
                pass
            signal.setitimer(signal.ITIMER_REAL, 0)
        except SoftTimeLimit:
            hits += 1
        if admin.exists(lock.key):
            left.append(lock)
            lock = RedisLock(client, f"{seed}-{len(left)}", lease=1)
    signal.setitimer(signal.ITIMER_REAL, 0)
    assert hits > ROUNDS // 20, f"only {hits} interrupts, too few to mean anything"
    wait_until(lambda: not any(admin.exists(one.key) for one in left), "all leases have ended")
    probe = RedisLock(client, "probe", lease=3).acquire()
    wait_until(lambda: admin.pttl("lock:{probe}") < 2400, "some of the probe's lease is over")
    wait_until(lambda: admin.pttl("lock:{probe}") > 2700, "the probe is renewed")
    probe.release()
    print("all is well")


def wait_until(condition: Any, what: str) -> None:
    give_up = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < give_up, f"not after 20 s: {what}"
        time.sleep(0.01)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
