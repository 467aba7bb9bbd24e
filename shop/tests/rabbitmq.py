"""A private RabbitMQ for tests: own folders, free ports of 127.0.0.1, own epmd."""

from __future__ import annotations

import socket
import subprocess
from collections.abc import Mapping

from locking.tests.needs import find, programs
from locking.tests.servers import Server, free_port
from shop.tests.processes import wait_for

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
        """Return the command of the server, in the foreground."""
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
        """Return the value for CELERY_BROKER_URL."""
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
