"""Celery processes for tests, on the test's database."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

from django.db import connection

from shop import environment
from shop.background.config import QUEUES
from shop.background.ping import worker_answers
from shop.tests.processes import wait_for


class Worker:
    """A worker and its children, in their own process group."""

    def __init__(self, broker: str, log: Path, *options: str) -> None:
        self.broker = broker
        self.log = log
        self.name = f"test-{uuid4().hex[:8]}@127.0.0.1"
        wanted = (
            "-n",
            self.name,
            "-Q",
            ",".join(QUEUES),
            "-c",
            "2",
            "--loglevel",
            "INFO",
            *options,
        )
        self.process = celery("worker", *wanted, broker=broker, log=log)

    def wait_until_ready(self) -> None:
        wait_for(lambda: worker_answers(self.broker, self.name), 60)

    def kill(self) -> None:
        """Kill all its processes at once, as when the machine dies."""
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def children(self) -> list[int]:
        """Return the ids of the processes that run tasks."""
        found = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children")
        return [int(pid) for pid in found.read_text().split()]


@contextmanager
def worker(broker: str, log: Path, *options: str) -> Iterator[Worker]:
    """Start a worker and wait until it answers; kill it afterwards if it still runs."""
    one = Worker(broker, log, *options)
    try:
        one.wait_until_ready()
        yield one
    finally:
        if one.process.poll() is None:
            one.kill()


def celery(*arguments: str, broker: str, log: Path) -> subprocess.Popen[bytes]:
    """Start a Celery command."""
    server, _, _ = os.environ["DATABASE_URL"].rpartition("/")
    database = f"{server}/{connection.settings_dict['NAME']}"
    with log.open("ab") as output:
        return subprocess.Popen(
            [sys.executable, "-m", "celery", "-A", "shop", *arguments],
            cwd=environment.PROJECT,
            env={
                **os.environ,
                "DATABASE_URL": database,
                "CELERY_BROKER_URL": broker,
            },
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
