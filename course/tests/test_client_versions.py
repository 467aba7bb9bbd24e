"""The lock with other versions of its client, each installed into a folder of its own.

As a program, this file uses the lock in every ordinary way, with the version in its arguments.
"""

import asyncio
import os
import subprocess
import sys
import threading
import time
from importlib.metadata import version
from pathlib import Path

import pytest
import redis.asyncio

from development.servers import Valkey, free_port
from locking import LockLost, LockTimeout, LockUnavailable
from locking.redis_lock import RedisLock
from locking.redis_lock_async import AsyncRedisLock
from locking.tests.helpers import Task, eventually

pytestmark = [pytest.mark.long, pytest.mark.nightly]

ROOT = Path(__file__).parents[2]
VERSIONS = ("redis==6.0.0", "redis==6.4.0", "redis==7.1.0")
"""The first is the oldest that the package asks for; the newest is in requirements.txt."""


def blocking(url: str) -> None:
    client = redis.Redis.from_url(url)
    client.flushall()
    lock = RedisLock(client, "phone", lease=1)
    entered = 0

    def enter() -> None:
        nonlocal entered
        for _ in range(50):
            with lock:
                seen = entered
                time.sleep(0)
                entered = seen + 1

    for task in [Task(enter) for _ in range(4)]:
        task.result()
    assert entered == 200
    with lock.acquire() as lease:
        heir = Task(lambda: RedisLock(client, "phone").acquire(timeout=10).release())
        eventually(lambda: lock.waiters() == 1)
        with pytest.raises(LockTimeout):
            RedisLock(client, "phone").acquire(timeout=0.6)
        assert not lease.lost.wait(1.2)
    heir.result()
    lease = lock.acquire()
    client.flushall()
    with pytest.raises(LockLost):
        lease.release()
    client.close()
    with redis.Redis(port=free_port()) as gone, pytest.raises(LockUnavailable):
        RedisLock(gone, "phone").acquire()


async def for_asyncio(url: str) -> None:
    client = redis.asyncio.Redis.from_url(url)
    lock = AsyncRedisLock(client, "phone", lease=1)
    entered = 0

    async def enter() -> None:
        nonlocal entered
        async with lock:
            seen = entered
            await asyncio.sleep(0)
            entered = seen + 1

    await asyncio.gather(*(enter() for _ in range(50)))
    assert entered == 50
    async with lock:
        waiting = asyncio.create_task(lock.acquire())
        await asyncio.sleep(1.2)
        waiting.cancel()
        await asyncio.wait([waiting])
        assert waiting.cancelled()
    assert not await lock.locked()
    await client.aclose()


@pytest.mark.parametrize("requirement", VERSIONS)
def test_contention_time_outs_and_losses_with(
    requirement: str, tmp_path: Path, valkey_server: Valkey
):
    install = [str(Path(sys.executable).with_name("uv")), "pip", "install", "--quiet"]
    subprocess.run([*install, "--no-deps", "--target", str(tmp_path), requirement], check=True)
    done = subprocess.run(
        [sys.executable, "-W", "error", __file__, requirement, valkey_server.endpoint],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), str(ROOT)])},
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "done\n"), done.stderr


if __name__ == "__main__":
    name, _, wanted = sys.argv[1].partition("==")
    assert version(name) == wanted, version(name)
    blocking(sys.argv[2])
    asyncio.run(for_asyncio(sys.argv[2]))
    assert threading.active_count() <= 4
    print("done")
