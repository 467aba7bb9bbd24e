"""Celery's processes for tests, on the test's database, and a private RabbitMQ for them."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

from celery import Celery
from django.db import connection
from kombu.exceptions import OperationalError
from redis import RedisError

from locking.tests.needs import find, programs
from locking.tests.servers import Server, free_port
from shop import environment
from shop.background.config import QUEUES
from shop.tests.processes import wait_for


class Worker:
    """A worker and its children, in their own process group."""

    def __init__(self, broker: str, log: Path, *options: str) -> None:
        self.broker = broker
        self.log = log
        self.name = f"test-{uuid4().hex[:8]}@127.0.0.1"
        server, _, _ = os.environ["DATABASE_URL"].rpartition("/")
        database = f"{server}/{connection.settings_dict['NAME']}"
        listens = ("-n", self.name, "-Q", ",".join(QUEUES), "-c", "2", "--loglevel", "INFO")
        with log.open("ab") as output:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "celery", "-A", "shop", "worker", *listens, *options],
                cwd=environment.PROJECT,
                env={**os.environ, "DATABASE_URL": database, "CELERY_BROKER_URL": broker},
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def wait_until_ready(self) -> None:
        wait_for(self._answers, 60)

    def _answers(self) -> bool:
        with Celery(set_as_current=False) as app:
            app.conf.update(broker_read_url=self.broker, broker_write_url=self.broker)
            try:
                return bool(app.control.ping(destination=[self.name], timeout=1))
            except (OperationalError, RedisError, OSError):
                return False

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


# Debian's command switches to the system's user and folders; this program does not.
PROGRAM = "/usr/lib/rabbitmq/bin/rabbitmq-server"


class RabbitMQ(Server):
    """`with RabbitMQ() as rabbit: rabbit.endpoint`."""

    name = "rabbitmq"
    need = programs("RabbitMQ", "rabbitmq-server", "epmd", package="rabbitmq-server")

    def prepare(self) -> None:
        """Write the configuration and start an epmd, which RabbitMQ would leave running."""
        (self.home / "rabbitmq.conf").write_text(
            f"listeners.tcp.local = 127.0.0.1:{self.port}\n"
            "disk_free_limit.absolute = 10MB\n"
            "log.console = true\nlog.file = false\n"
        )
        (self.home / "plugins").write_text("[].")
        self._names = free_port()
        epmd = find("epmd")
        assert epmd is not None, "epmd comes with Erlang, which RabbitMQ needs"
        self._epmd = subprocess.Popen(
            [epmd, "-port", str(self._names), "-address", "127.0.0.1"],
            start_new_session=True,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        wait_for(self._names_are_served)

    def _names_are_served(self) -> bool:
        try:
            socket.create_connection(("127.0.0.1", self._names), timeout=1).close()
        except OSError:
            return False
        return True

    def command(self) -> list[str]:
        return [PROGRAM]

    def environment(self) -> Mapping[str, str]:
        """Return variables that replace the system's folders."""
        return {
            "HOME": str(self.home),  # the Erlang cookie
            "RABBITMQ_CONF_ENV_FILE": "/dev/null",
            "RABBITMQ_NODENAME": f"test-{self.port}@localhost",
            "RABBITMQ_CONFIG_FILE": str(self.home / "rabbitmq.conf"),
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(self.home / "plugins"),
            "RABBITMQ_MNESIA_BASE": str(self.home / "data"),
            "RABBITMQ_LOG_BASE": str(self.home),
            "RABBITMQ_PID_FILE": str(self.home / "pid"),
            "RABBITMQ_DIST_PORT": str(free_port()),
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": (
                "-kernel inet_dist_use_interface {127,0,0,1} +S 2:2 +sbwt none"
            ),
            "ERL_EPMD_PORT": str(self._names),
            "ERL_EPMD_ADDRESS": "127.0.0.1",
        }

    @property
    def endpoint(self) -> str:
        return f"amqp://guest:guest@127.0.0.1:{self.port}//"

    def ping(self) -> None:
        """Greet it as AMQP clients do; it answers once it is ready."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=2) as talk:
            talk.sendall(b"AMQP\x00\x00\x09\x01")
            if not talk.recv(1):
                raise ConnectionError("not ready")

    def remove(self) -> None:
        """Stop it and its epmd; delete the folder."""
        # An orderly stop takes time, and nothing in it must survive.
        self.kill()
        if hasattr(self, "_epmd"):
            self._epmd.kill()
            self._epmd.wait()
        super().remove()
