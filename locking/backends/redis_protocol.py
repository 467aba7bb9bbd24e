"""How a client talks to the fair Redis lock: keys, scripts, and the steps of an acquisition.

Nothing in here reads or writes a socket, so the blocking lock, the asyncio lock and a simulator
all run the same protocol.  The other half of it is in `lua/`.
"""

from __future__ import annotations

import hashlib
import itertools
import os
import random
import re
import socket
from collections.abc import Callable, Generator
from dataclasses import dataclass
from functools import cache
from math import inf
from pathlib import Path
from typing import Any

from locking.base import LockTimeout

SLICE = 2.0
"""Seconds that a waiter blocks at most before it reports itself alive: short enough that a dead
one leaves the queue within seconds, long enough to cost next to nothing."""

JITTER = 0.05
"""Seconds, at most, that the first in line looks after the end of the holder's lease, so that the
server has surely expired it; the others look later, in the order of their places."""


@dataclass(frozen=True, slots=True)
class Script:
    """A Lua script, known to the server by its hash once it has been sent in full."""

    name: str
    source: str
    sha: str

    @staticmethod
    @cache
    def load(name: str) -> Script:
        """Read `lua/<name>.lua`; each of its lines `-- @part` stands for `lua/<part>.lua`."""
        folder = Path(__file__).parent / "lua"
        source = re.sub(
            r"^-- @(\w+)$",
            lambda line: (folder / f"{line[1]}.lua").read_text(),
            (folder / f"{name}.lua").read_text(),
            flags=re.MULTILINE,
        )
        # SHA-1 is what EVALSHA is defined with; it protects nothing here.
        sha = hashlib.sha1(source.encode(), usedforsecurity=False).hexdigest()
        return Script(name, source, sha)


@dataclass(frozen=True, slots=True)
class Scripts:
    """The scripts of one kind of lock; all kinds take the same keys and give the same answers."""

    acquire: Script
    release: Script
    renew: Script
    evict: Script
    owner: Script
    waiters: Script

    @staticmethod
    def load(prefix: str) -> Scripts:
        """Read the scripts whose names begin so."""
        return Scripts(
            acquire=Script.load(f"{prefix}acquire"),
            release=Script.load(f"{prefix}release"),
            renew=Script.load(f"{prefix}renew"),
            evict=Script.load(f"{prefix}evict"),
            owner=Script.load(f"{prefix}owner"),
            waiters=Script.load("waiters"),
        )


MUTEX = Scripts.load("")
SHARED = Scripts.load("shared_")


@dataclass(frozen=True, slots=True)
class Keys:
    """The names of a lock's keys, under one hash tag, so that they share a cluster node."""

    all: tuple[str, str, str, str]

    @staticmethod
    def of(kind: str, name: str) -> Keys:
        """Name the keys of the `kind` of lock called `name`, neither empty nor in braces."""
        if not name or name[0] in "{}":
            # "{}" would be no hash tag at all, and the keys would lie on different nodes.
            raise ValueError(f"not a name for a lock: {name!r}")
        lock = f"{kind}:{{{name}}}"
        return Keys((lock, f"{lock}:fence", f"{lock}:queue", f"{lock}:alive"))

    def wake_list(self, holder: str) -> str:
        """The list at which one acquisition, and no other, waits for its turn."""
        return f"{self.all[0]}:wake:{holder.partition(':')[0]}"


class Tokens:
    """Makes names that no other acquisition in any process has."""

    def __init__(self) -> None:
        self._renew()
        os.register_at_fork(after_in_child=self._renew)

    def _renew(self) -> None:
        # One random start a process and then a counter: a tenth of the price of fresh randomness
        # for each, and as unique.
        self._start = os.urandom(9).hex()
        self._count: Callable[[], int] = itertools.count().__next__
        self.process = f"{socket.gethostname()}/{os.getpid()}"

    def new(self) -> str:
        """Return a fresh token, without a colon in it."""
        return f"{self._start}{self._count():x}"


TOKENS = Tokens()


@dataclass(frozen=True, slots=True)
class Grant:
    """The lock is ours: its fencing token, and since when, at the earliest, on our own clock."""

    fence: int
    since: float


class LateGrant(LockTimeout):
    """The last try was granted, but its answer took longer than the lease: to be given back."""


AcquireSteps = Generator["tuple[str, ...] | float", Any, Grant]


def acquire_steps(
    holder: str,
    *,
    lease: float,
    mode: str,
    timeout: float | None,
    monotonic: Callable[[], float],
) -> AcquireSteps:
    """Wait for the lock's turn, one step at a time; the caller does what each step asks for.

    A yielded tuple asks for the acquire script with these arguments, and for its answer; a float
    for a blocking pop of the wake-up list for that many seconds, and for its message or None.
    Returns the grant, which is not over yet; raises `LockTimeout` once `timeout` seconds have
    passed.
    """
    lease_ms = str(round(lease * 1000))
    queue_up = (holder, lease_ms, mode, "1")
    only_try = (holder, lease_ms, mode, "0")
    sent_at = monotonic()
    deadline = inf if timeout is None else sent_at + timeout
    while True:
        answer = yield only_try if sent_at >= deadline else queue_up
        now = monotonic()
        if answer[0]:
            if now < sent_at + lease:
                return Grant(answer[0], sent_at)
            # The lease may be over, and somebody else's by now. Asked again, the server begins it
            # anew if it is still ours.
            if sent_at >= deadline:
                raise LateGrant(f"no answer within the lease of {lease} s")
            sent_at = now
            continue
        if sent_at >= deadline:
            raise LockTimeout(f"not free within {timeout} s")
        # Never past the end of the holder's lease: it may have crashed.  The last try is made at
        # the deadline, after this sleep.
        _, ends_in_ms, place, server_us = answer
        patience = max(ends_in_ms, 0) / 1000 + max(place, 1) * random.uniform(JITTER / 2, JITTER)
        message = yield max(0.001, min(SLICE, patience, deadline - now))
        now = monotonic()
        if message:
            fence, granted_us = map(int, message.split(b":"))
            # The lease began when the previous holder let go.  On our clock that was as long after
            # our question as it was on the server's after its answer, and not in the future.
            since = min(now, sent_at + max(0, granted_us - server_us) / 1e6)
            if fence and now < since + lease:
                return Grant(fence, since)
        sent_at = now
