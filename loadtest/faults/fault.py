"""The interface of a fault, and the control port of the proxies that faults use."""

from __future__ import annotations

import json
import socket
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from random import Random
from typing import Any, ClassVar

from loadtest.faults.target import Target

POLL = 0.05
"""Seconds between polls."""


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
        """Change the proxy's behaviour (see `proxy.Proxy.change`); return its counts.

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

    def counts(self) -> dict[str, int]:
        """Return its counts so far."""
        return self.tell()
