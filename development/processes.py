"""The shop's own processes: web, Celery's worker and beat, the fake payment provider, and any other
module of this project.

They are servers like those of `servers`: `manage.py run` and tests start them by themselves, and a
supervisor keeps the demo's alive.

    with Web({"DATABASE_URL": url}) as web:
        urllib3.request("GET", f"{web.endpoint}/healthz")
"""

from __future__ import annotations

import hashlib
import signal
import socket
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from uuid import uuid4

import urllib3
from celery import Celery

from development import environment
from development.folder import data_folder, make_folder, secret
from development.needs import Need
from development.servers import Command, ServerFailed
from shop.background.config import QUEUES

HOST = "127.0.0.1"

SHOP = ("gunicorn", "-c", "gunicorn.conf.py", "shop.wsgi")
"""The module that serves the shop, and its arguments."""


def serves(url: str, below: int = 201) -> bool:
    """Return whether `url` answers 200, or with another status below the given one."""
    try:
        # An idle connection would delay the end of the server. Some servers end a connection that
        # is not to be kept and do not say so in their answer, so it is kept out of the common pool.
        with urllib3.PoolManager() as own:
            answer = own.request(
                "GET", url, headers={"Connection": "close"}, timeout=5, retries=False
            )
        return 200 <= answer.status < below
    except urllib3.exceptions.HTTPError:
        return False


def greets(port: int) -> bool:
    """Return whether a server on a port of this machine greets its clients."""
    try:
        with socket.create_connection((HOST, port), timeout=5) as connection:
            return bool(connection.recv(1))
    except OSError:
        return False


class Module(Command):
    """A module of this project that runs as a program.

    Args:
        words: the module and its arguments.
        name, variables, home, port: as of every command.
    """

    need = Need("this project's packages", "make .venv", lambda: True)
    folder = environment.PROJECT

    def command(self) -> list[str]:
        """Return the interpreter with the module."""
        return [sys.executable, "-m", *self.words]


class Page(Module):
    """A module that serves HTTP.

    Args:
        path: of a page that answers 200 when it is ready.
    """

    def __init__(
        self, name: str, words: Sequence[str], path: str = "/healthz", **more: Any
    ) -> None:
        super().__init__(name, words, **more)
        self.path = path

    def ping(self) -> None:
        """Ask for the page."""
        if not serves(f"{self.endpoint}{self.path}"):
            raise ServerFailed(f"{self.name} does not serve {self.path}")


class Greeter(Module):
    """A module whose clients are greeted by it, such as a mail server."""

    def ping(self) -> None:
        """Wait for the greeting."""
        if not greets(self.port):
            raise ServerFailed(f"{self.name} does not greet")


class Web(Page):
    """gunicorn with the shop.

    Args:
        variables, home, port: as of every module.
        path: `/readyz` waits for its servers too.
        words: another module that serves the shop.
    """

    def __init__(
        self,
        variables: Mapping[str, str] | None = None,
        home: Path | None = None,
        port: int = 0,
        path: str = "/healthz",
        words: Sequence[str] = SHOP,
    ) -> None:
        super().__init__("web", words, path, variables=variables, home=home, port=port)
        self.variables = {"SHOP_BIND": HOST, "SHOP_PORT": str(self.port), **self.variables}


class PaymentProvider(Page):
    """The fake payment provider (`development/psp`).

    Args:
        variables, home, port: as of every module; `payment_variables` has what it needs.
        back: address to which its page leads back.
    """

    def __init__(
        self,
        variables: Mapping[str, str] | None = None,
        home: Path | None = None,
        port: int = 0,
        back: str = "",
    ) -> None:
        super().__init__("psp", (), variables=variables, home=home, port=port)
        self.words = ["development.psp", "--bind", f"{HOST}:{self.port}"]
        if back:
            self.words += ["--back", back]


def payment_variables(
    psp: str, shop: str, database: str, data: Path | None = None
) -> dict[str, str]:
    """Return the variables by which the fake payment provider and a shop know each other.

    Args:
        psp: address of the provider.
        shop: address of the shop.
        database: URL of the shop's database: the provider has a file for each, because both know
            the same orders.
        data: folder of these files; by default in the data folder.
    """
    books = environment.text("PSP_DATABASE")
    if not books:
        name = hashlib.sha256(database.encode()).hexdigest()[:16]
        books = str(make_folder((data or data_folder()) / "psp") / name)
    return {
        "PSP_URL": psp,
        "PSP_DATABASE": books,
        "PSP_WEBHOOK_URL": f"{shop}/api/v1/webhooks/psp",
        # Given explicitly, because the processes may have another data folder.
        **{name: secret(name) for name in ("PSP_KEY", "PSP_WEBHOOK_SECRET")},
    }


class Worker(Module):
    """Celery's worker.

    Args:
        broker: URL of the one at which it answers.
        variables, home: as of every module.
        options: more of them; the last counts.
    """

    # It hands back running tasks (background/config.py).
    stop_signal = signal.SIGQUIT

    def __init__(
        self,
        broker: str,
        variables: Mapping[str, str] | None = None,
        home: Path | None = None,
        options: Sequence[str] = (),
    ) -> None:
        super().__init__("celery", variables=variables, home=home)
        self.broker = broker
        self.variables = {"CELERY_BROKER_URL": broker, **self.variables}
        self.node = f"{uuid4().hex[:8]}@{HOST}"
        """Its name among the workers of the broker."""
        self.words = [
            "celery",
            "-q",
            "-A",
            "shop",
            "worker",
            "-n",
            self.node,
            "-Q",
            ",".join(QUEUES),
            "-c",
            "2",
            "--loglevel",
            "INFO",
            *options,
        ]

    def ping(self) -> None:
        """Ask it through its broker."""
        with Celery(set_as_current=False) as app:
            # Not `Celery(broker=…)`: the variable CELERY_BROKER_URL would override it, and this
            # process may use another broker than the worker.
            app.conf.update(broker_read_url=self.broker, broker_write_url=self.broker)
            if not app.control.ping(destination=[self.node], timeout=1):
                raise ServerFailed(f"{self.node} does not answer")

    def children(self) -> list[int]:
        """Return the ids of the processes that run tasks."""
        assert self.process is not None
        found = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children")
        return [int(pid) for pid in found.read_text().split()]


class Beat(Module):
    """Celery's beat, which serves nobody."""

    def __init__(
        self, schedule: Path, variables: Mapping[str, str] | None = None, home: Path | None = None
    ) -> None:
        words = ("celery", "-A", "shop", "beat", "-s", str(schedule), "--pidfile=")
        super().__init__("beat", words, variables, home)

    def ping(self) -> None:
        """Wait for nothing."""
