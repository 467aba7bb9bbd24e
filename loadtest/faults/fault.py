"""The interface of a fault, its target with its processes, and the proxies' control port."""

from __future__ import annotations

import json
import os
import secrets
import signal
import socket
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from random import Random
from typing import Any, ClassVar

import msgspec
import psutil

from loadtest.fault_needs import CLOCK, DATABASE_PROXY, DISK, FAILPOINTS, REDIS_PROXY


@dataclass(frozen=True, slots=True)
class Target:
    """A running shop that faults act on; can be stored in a file for another process.

    Attributes:
        web: the shop's address.
        sale: id of the current sale.
        shop: pid of the supervisor that restarts web, Celery and mail processes.
        web_word: word on the command line of the web processes' master only.
        mail_word: word on the command line of the mail server only.
        database: URL of PostgreSQL itself, without a proxy; a supervisor restarts it.
        database_folder: its data directory, on this machine.
        redis: URL of Redis itself, without a proxy; a supervisor restarts it.
        broker: URL of Celery's broker.
        redis_proxy: control port of the proxy between the shop and Redis; 0: none.
        database_proxy: likewise for PostgreSQL.
        failpoints: folder for commands to failpoints; empty: the shop has none.
        clock: file that libfaketime reads in the web processes; empty: they use the system's clock.
        disk: folder of the database's small file system; empty: none.
        health_path, sale_path, figures_path: of the shop, the last two with `{}` for the sale's id.
        compose: file of settings of a project of Docker Compose; empty: the shop is in none.
    """

    web: str
    shop: int
    database: str
    database_folder: str
    redis: str
    broker: str
    sale: int = 0
    web_word: str = "shop.wsgi"
    mail_word: str = "lab.mail_server"
    redis_proxy: int = 0
    database_proxy: int = 0
    failpoints: str = ""
    clock: str = ""
    disk: str = ""
    health_path: str = ""
    sale_path: str = ""
    figures_path: str = ""
    compose: str = ""

    def has(self) -> frozenset[str]:
        """Return the optional parts that exist."""
        there = {
            REDIS_PROXY: self.redis_proxy,
            DATABASE_PROXY: self.database_proxy,
            FAILPOINTS: self.failpoints,
            CLOCK: self.clock,
            DISK: self.disk,
        }
        return frozenset(name for name, value in there.items() if value)

    def write(self, path: Path) -> None:
        """Write it as JSON, readable by this user only because it contains passwords."""
        path.touch(mode=0o600)
        path.write_text(json.dumps(asdict(self), indent=2) + "\n")

    @classmethod
    def read(cls, path: Path) -> Target:
        """Read the file that `write` wrote."""
        return msgspec.json.decode(path.read_bytes(), type=cls)


POLL = 0.05
"""Seconds between polls."""

SETTLED = 240.0
"""Seconds for servers to recover at the end of a run."""


class FaultFailed(Exception):
    """The fault could not be injected or healed; the message says why."""


class NotRecovered(FaultFailed):
    """The target does not come back from a fault; another fault would show nothing."""


class Fault(ABC):
    """One injection: created, injected, healed, discarded.

    Attributes:
        name: on the command line and in the log.
        what: what it does, in a few words.
        expected: the shop's expected behaviour.
        needs: what the target must have, of the names in `target`.
        lasts: range of the seconds between injection and healing.
        wants_stock: it shows something only while the shop sells.
        leaves_doubt: while the shop sells, some of its requests get no answer. A run in which all
            got one was not hit by it.
        did: what it did, such as pids and counts, for the log.
        lost_at: when a server was lost, in ns of the monotonic clock; None: none was, or injecting
            takes no time.
    """

    name: ClassVar[str]
    what: ClassVar[str]
    expected: ClassVar[str]
    needs: ClassVar[frozenset[str]] = frozenset()
    lasts: ClassVar[tuple[float, float]] = (2.0, 4.0)
    wants_stock: ClassVar[bool] = False
    leaves_doubt: ClassVar[bool] = False

    def __init__(self, target: Target, random: Random) -> None:
        self.target = target
        self.random = random
        self.did: dict[str, Any] = {}
        self.lost_at: int | None = None

    @abstractmethod
    def inject(self) -> None:
        """Inject it. Raises `FaultFailed` if that is impossible."""

    @abstractmethod
    def heal(self) -> None:
        """Undo it, and return when the target works again; also after a failed injection."""

    @classmethod
    def unsettled(cls, target: Target) -> str:
        """Return why the target has not recovered at the end of a run; empty if it has."""
        return ""


def wait_until(what: str, ready: Callable[[], bool], seconds: float = 60.0) -> None:
    """Return when `ready()`. Raises `FaultFailed` after that many seconds."""
    deadline = time.monotonic() + seconds
    while not ready():
        if time.monotonic() > deadline:
            raise FaultFailed(f"timed out after {seconds:g} s: {what}")
        time.sleep(POLL)


class Control:
    """A proxy's control port; each call uses a new connection.

    Args:
        port: on this machine.
    """

    def __init__(self, port: int) -> None:
        self._port = port

    def tell(self, **settings: Any) -> dict[str, int]:
        """Change the proxy's behaviour (see `proxy.Proxy.change`); return its counts so far.

        Raises:
            FaultFailed: it does not answer.
        """
        try:
            with socket.create_connection(("127.0.0.1", self._port), timeout=5) as connection:
                connection.sendall(json.dumps(settings).encode() + b"\n")
                with connection.makefile("rb") as answer:
                    counts: dict[str, int] = json.loads(answer.readline())
        except (OSError, ValueError) as error:
            raise FaultFailed(f"the proxy does not answer: {error}") from error
        return counts


def require_linux() -> None:
    """Raise `FaultFailed` on other systems: the faults need Linux's signals and `/proc`."""
    if sys.platform != "linux":
        raise FaultFailed("faults can be injected on Linux only")


def program(supervisor: int, *words: str) -> psutil.Process:
    """Return the supervisor's child with these command-line words. Raises `FaultFailed`."""
    try:
        for child in psutil.Process(supervisor).children():
            if set(words) <= set(_command_line(child)):
                return child
    except psutil.Error as error:
        raise FaultFailed(f"the supervisor {supervisor} is gone") from error
    raise FaultFailed(f"{' '.join(words)} is not running")


def children(process: psutil.Process) -> list[psutil.Process]:
    """Return its live children, oldest first."""
    try:
        return [child for child in process.children() if lives(child)]
    except psutil.NoSuchProcess:
        return []


def lives(process: psutil.Process) -> bool:
    """Whether it is running; a zombie is not."""
    try:
        return bool(process.is_running() and process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def kill(processes: Iterable[psutil.Process]) -> list[int]:
    """Kill processes and wait for their end; return the pids of those that existed."""
    all_of_them = list(processes)
    pids = [process.pid for process in all_of_them if send(process.pid, signal.SIGKILL)]
    wait_until(f"{pids} end", lambda: not any(map(lives, all_of_them)), 10)
    return pids


def send(pid: int, number: signal.Signals) -> bool:
    """Send a signal; return whether the process existed."""
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return False
    return True


def command(target: Target, point: str, order: str, seconds: float) -> list[int]:
    """Leave an order at a failpoint for a while; return the pids of processes that executed it."""
    file = Path(target.failpoints) / point
    file.write_text(order)
    with suppress(FaultFailed):
        wait_until(f"a process reaches {point}", lambda: not file.exists(), seconds)
    file.unlink(missing_ok=True)
    # A process that takes an order renames the file to its pid.
    taken = list(file.parent.glob(f"{point}.*"))
    for path in taken:
        path.unlink()
    return [int(path.suffix[1:]) for path in taken]


def is_stopped(pid: int) -> bool:
    """Whether it is paused."""
    try:
        return bool(psutil.Process(pid).status() == psutil.STATUS_STOPPED)
    except psutil.NoSuchProcess:
        return False


def _command_line(process: psutil.Process) -> list[str]:
    try:
        return list(process.cmdline())
    except psutil.Error:
        return []


def free_port() -> int:
    """Return a port that nobody listens on now, below those that the system gives to clients."""
    while True:
        port = 20_000 + secrets.randbelow(12_000)
        with suppress(OSError), socket.create_server(("127.0.0.1", port)):
            return port
