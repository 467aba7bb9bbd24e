"""The shop as processes: gunicorn, Celery worker and beat, Locust, the control room, and the demo's
payment provider and mail server.

with private_folder() as folder, Stack(folder / "shop", urls) as stack:
    stack.start("psp", "mail", "web", "celery")
    ... stack.url ...
"""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

from development.embedded import EmbeddedServers, ServerUrls
from development.environment import PSP_PORT
from development.ports import next_free, release
from development.processes import (
    SHOP,
    Beat,
    Greeter,
    Page,
    PaymentProvider,
    Web,
    Worker,
    payment_variables,
)
from development.servers import Server
from development.signals import shielded
from development.supervisor import Program, Supervisor
from lab import environment
from lab.stack.proxies import under_clock
from loadtest.faults import Target

READY_SECONDS = 60
TARGET = "target.json"
WITHOUT_LOAD = ("psp", "mail", "web", "celery", "beat")
ALL = (*WITHOUT_LOAD, "locust", "room")


class Stack:
    """Processes of one shop on given servers, kept alive by their own supervisor.

    Args:
        folder: for configuration, logs and pids; one stack per folder at a time.
        urls: the servers.
        port: of the shop; by default the next free one.
        locust_port: of the Locust page; by default the next free one.
        extra: additional environment variables for every process.
        parts: what faults act on besides the processes, as in `Target`: proxies, failpoints, a
            clock of the web processes.
        web: another module with its arguments than the shop's gunicorn.

    Attributes:
        url: of the shop.
        locust_url, psp_url: of Locust's page, and of the payment provider.
        room_url: of the control room's process, to which its page connects.
        servers: the processes by name.
    """

    def __init__(
        self,
        folder: Path,
        urls: ServerUrls,
        *,
        port: int | None = None,
        locust_port: int | None = None,
        extra: Mapping[str, str] | None = None,
        parts: Mapping[str, Any] | None = None,
        web: Sequence[str] = SHOP,
    ) -> None:
        self.supervisor = Supervisor(folder)
        self.urls = urls
        self.port = port or next_free(environment.number("SHOP_PORT"))
        self.locust_port = locust_port or next_free(environment.number("LOCUST_PORT"))
        self.psp_port = next_free(PSP_PORT)
        self.mail_port = next_free(environment.MAIL_PORT)
        self.room_port = next_free(environment.ROOM_PORT)
        self.url = f"http://127.0.0.1:{self.port}"
        self.locust_url = f"http://127.0.0.1:{self.locust_port}"
        self.psp_url = f"http://127.0.0.1:{self.psp_port}"
        self.room_url = f"http://127.0.0.1:{self.room_port}"
        self.extra = dict(extra or {})
        self.parts = dict(parts or {})
        self.servers: dict[str, Server] = {server.name: server for server in self._described(web)}

    @property
    def supervisor_pid(self) -> int:
        """The process that restarts the others, once they have been started."""
        return int((self.supervisor.folder / "supervisord.pid").read_text())

    @property
    def mail_folder(self) -> Path:
        """Where the mail server keeps what it takes."""
        return self._data / "mail"

    @property
    def _data(self) -> Path:
        return Path(self.extra.get("SHOP_DATA") or environment.data_folder())

    def start(self, *names: str) -> None:
        """Start the processes `names` (of `ALL`) and return when all of them serve.

        Raises:
            StackError: a process does not start; includes its last log lines.
        """
        everything = {
            **os.environ,
            **self.urls.as_environment(),
            "SHOP_DEMO": "1",
            "DJANGO_SETTINGS_MODULE": "lab.settings",
            "SHOP_DATA": str(environment.data_folder()),
            "SHOP_PORT": str(self.port),
            "SHOP_FAILPOINTS": self.parts.get("failpoints", ""),
            "METRICS_FOLDER": str(self.supervisor.folder / "metrics"),
            **payment_variables(self.psp_url, self.url, self.urls.database, self._data),
            # Never to a real one: the buyers of load tests have made-up addresses.
            "EMAIL_HOST": "127.0.0.1",
            "EMAIL_PORT": str(self.mail_port),
            "EMAIL_HOST_USER": "",
            # A proof looks for each mail by itself.
            "MAIL_INTERVAL": os.environ.get("MAIL_INTERVAL", "0"),
            "PYTHONUNBUFFERED": "1",
            **self.extra,
        }
        if "room" in names:
            everything["ROOM_URL"] = self.room_url
        if "locust" in names:
            everything["LOCUST_URL"] = self.locust_url
        self.supervisor.start([Program.of(self.servers[name]) for name in names], everything)
        for name in names:
            self.wait_until_ready(name, may_die=False)

    def target(self, servers: EmbeddedServers) -> Target:
        """Return what faults act on, once all processes have started.

        Args:
            servers: the embedded ones of this shop.
        """
        urls = servers.urls
        return Target(
            web=self.url,
            shop=self.supervisor_pid,
            database=urls.database,
            database_folder=str(servers.postgres.data),
            redis=urls.redis,
            broker=urls.broker,
            disk=str(servers.disk or ""),
            health_path="/healthz",
            sale_path="/api/v1/sales/{}",
            figures_path="/api/v1/demo/sales/{}/figures",
            **self.parts,
        )

    def wait_until_ready(
        self, name: str, seconds: float = READY_SECONDS, *, may_die: bool = True
    ) -> None:
        """Return when the process `name` serves, perhaps after a restart.

        Raises:
            StackError: it does not serve within `seconds`.
        """
        ready = self.servers[name].answers if name != "beat" else self._beat_runs
        self.supervisor.wait_until(name, ready, seconds, may_die=may_die)

    def _beat_runs(self) -> bool:
        return self.supervisor.state("beat").state == "RUNNING"

    def stop(self) -> None:
        """Stop all processes at once: the books balance wherever they are interrupted."""
        with shielded():
            self.supervisor.stop()
            release(self.port, self.locust_port, self.psp_port, self.mail_port, self.room_port)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        self.stop()

    def _described(self, web: Sequence[str]) -> Iterator[Server]:
        home, data, host = self.supervisor.folder, environment.data_folder(), "127.0.0.1"
        # The demo writes there what the faults of Locust's page and of the room act on.
        target = ("--target", str(home / TARGET))
        clock = under_clock(Path(self.parts["clock"])) if "clock" in self.parts else {}
        yield PaymentProvider(home=home, port=self.psp_port, back=f"{self.url}/stage/")
        mail = ("lab.mail_server", "--port", str(self.mail_port), "--folder", str(self.mail_folder))
        yield Greeter("mail", mail, home=home, port=self.mail_port)
        yield Web(clock, home, self.port, path="/readyz", words=web)
        concurrency = environment.text("CELERY_CONCURRENCY")
        alone = ("--without-gossip", "--without-mingle")
        yield Worker(self.urls.broker, home=home, options=("-c", concurrency, *alone))
        yield Beat(home / "beat-schedule", home=home)
        room = ("lab.room", "--port", str(self.room_port), "--shop", self.url, *target)
        yield Page("room", room, home=home, port=self.room_port)
        locust = (
            "locust",
            "-f",
            "loadtest/locustfile.py",
            "--host",
            self.url,
            "--web-host",
            host,
            "--web-port",
            str(self.locust_port),
            # A run ends by itself and is then judged.
            "--until-done",
            "--runs",
            str(data / "loadtest"),
            # Other shops, to be rushed in place of this one.
            "--shops",
            str(data / "shops"),
            "--hosting",
            shlex.join((sys.executable, "manage.py", "host_shop")),
            *target,
        )
        yield Page("locust", locust, "/", home=home, port=self.locust_port)
