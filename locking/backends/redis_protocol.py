"""The client's half of the Redis lock protocol: keys, scripts and the steps of an acquisition.

This module does no input or output, so the blocking lock, the asyncio lock and the simulator run
the same protocol.  The server's half is in `lua/`.
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

from locking.base import LockTimeout, LockUnavailable

SLICE = 0.4
"""The longest wait in seconds before a waiter reports that it is alive, and passes over waiters
that have died: short enough that they cost those behind them about a second, long enough to cost
almost nothing."""

JITTER = 0.05
"""The longest delay in seconds between the expiry of the holder's lease and the check of the first
waiter, so that the server has expired the key; later waiters check later, in queue order."""

MAX_JITTER = 0.1
"""The longest of these delays in seconds, however many wait in front."""


RIDE_OUT = 30.0
"""Seconds for which a waiter without a time-out rides out a server that has stopped answering: a
fail-over or a restart takes less."""

RECONNECT_PAUSE = 0.2
"""The longest pause in seconds between the tries of such a waiter."""


@dataclass(frozen=True, slots=True)
class Script:
    """A Lua script; the server knows it by its hash once it has been sent in full."""

    name: str
    source: str
    sha: str

    @staticmethod
    @cache
    def load(name: str) -> Script:
        """Read `lua/<name>.lua`; replace each line `-- @part` with `lua/<part>.lua`."""
        folder = Path(__file__).parent / "lua"
        source = re.sub(
            r"^-- @(\w+)$",
            lambda line: (folder / f"{line[1]}.lua").read_text(),
            (folder / f"{name}.lua").read_text(),
            flags=re.MULTILINE,
        )
        # EVALSHA is defined with SHA-1; the hash protects nothing here.
        sha = hashlib.sha1(source.encode(), usedforsecurity=False).hexdigest()
        return Script(name, source, sha)


@dataclass(frozen=True, slots=True)
class Scripts:
    """The scripts of one kind of lock; all kinds take the same keys and return the same answers."""

    acquire: Script
    release: Script
    renew: Script
    evict: Script
    owner: Script
    resume: Script
    waiters: Script
    bell: Script

    @staticmethod
    def load(prefix: str) -> Scripts:
        """Read the scripts whose names start with `prefix`."""
        return Scripts(
            acquire=Script.load(f"{prefix}acquire"),
            release=Script.load(f"{prefix}release"),
            renew=Script.load(f"{prefix}renew"),
            evict=Script.load(f"{prefix}evict"),
            owner=Script.load(f"{prefix}owner"),
            resume=Script.load(f"{prefix}resume"),
            waiters=Script.load("waiters"),
            bell=Script.load("bell"),
        )


MUTEX = Scripts.load("")
SHARED = Scripts.load("shared_")


@dataclass(frozen=True, slots=True)
class Keys:
    """A lock's keys, under one hash tag, so that they are on one cluster node."""

    all: tuple[str, str, str, str]

    @staticmethod
    def of(kind: str, name: str) -> Keys:
        """Build the keys of the `kind` of lock called `name`, which must not start with a brace."""
        if not name or name[0] in "{}":
            # "{}" is not a hash tag, so the keys would be on different nodes.
            raise ValueError(f"a lock's name must not be empty or start with a brace: {name!r}")
        lock = f"{kind}:{{{name}}}"
        return Keys((lock, f"{lock}:fence", f"{lock}:queue", f"{lock}:alive"))

    def wake_list(self, holder: str) -> str:
        """Return the wake-up list of one acquisition."""
        return f"{self.all[0]}:wake:{holder.partition(':')[0]}"


class Tokens:
    """A source of tokens that are unique across all processes."""

    def __init__(self) -> None:
        self._renew()
        os.register_at_fork(after_in_child=self._renew)

    def _renew(self) -> None:
        # A random prefix per process plus a counter costs a tenth of fresh random bytes per token.
        self._start = os.urandom(9).hex()
        self._count: Callable[[], int] = itertools.count().__next__
        self.process = f"{socket.gethostname()}/{os.getpid()}"

    def new(self) -> str:
        """Return a new token; it contains no colon."""
        return f"{self._start}{self._count():x}"


TOKENS = Tokens()


@dataclass(frozen=True, slots=True)
class Grant:
    """A granted lock: its fencing token, and the earliest time of the grant on our clock."""

    fence: int
    since: float


class LateGrant(LockTimeout):
    """The last try was granted, but its answer took longer than the lease; release the lock."""


@dataclass(frozen=True, slots=True)
class Pause:
    """A step of an acquisition: sleep for so many seconds."""

    seconds: float


AcquireSteps = Generator["tuple[str, ...] | float | Pause", Any, Grant]


def acquire_steps(
    holder: str,
    *,
    name: str,
    lease: float,
    mode: str,
    timeout: float | None,
    monotonic: Callable[[], float],
) -> AcquireSteps:
    """Yield the steps of one acquisition; the caller executes them and sends the results back.

    A yielded tuple means: run the acquire script with these arguments and send its answer.  A float
    means: pop the wake-up list, blocking for that many seconds, and send the message or None.  A
    `Pause` means: sleep.  The caller throws `LockUnavailable` in if the server does not answer.
    Returns a grant that has not expired; raises `LockTimeout` after `timeout` seconds.
    """
    lease_ms = str(round(lease * 1000))
    queue_up = (holder, lease_ms, mode, "1")
    only_try = (holder, lease_ms, mode, "0")
    sent_at = monotonic()
    deadline = inf if timeout is None else sent_at + timeout
    ride_out_until = -inf  # a server that has never answered is not waited for
    while True:
        try:
            answer = yield only_try if sent_at >= deadline else queue_up
        except LockUnavailable:
            left = min(deadline, ride_out_until) - monotonic()
            if left <= 0:
                raise
            yield Pause(min(left, random.uniform(RECONNECT_PAUSE / 2, RECONNECT_PAUSE)))
            sent_at = monotonic()
            continue
        now = monotonic()
        ride_out_until = now + RIDE_OUT if timeout is None else inf
        if answer[0]:
            if now < sent_at + lease:
                return Grant(answer[0], sent_at)
            # The lease may have expired, and another client may hold the lock. If the lock is still
            # ours, the server restarts the lease when asked again.
            if sent_at >= deadline:
                raise LateGrant(f"lock {name!r}: no answer within the lease of {lease} s")
            sent_at = now
            continue
        if sent_at >= deadline:
            raise LockTimeout(f"lock {name!r}: not free within {timeout} s")
        # Do not wait past the expiry of the holder's lease: the holder may have crashed.  The last
        # try happens at the deadline, after this wait.
        _, ends_in_ms, place, server_us, minted = answer
        jitter = min(max(place, 1) * random.uniform(JITTER / 2, JITTER), MAX_JITTER)
        until_expiry = max(ends_in_ms, 0) / 1000 + jitter
        try:
            message = yield max(0.001, min(SLICE, until_expiry, deadline - now))
        except LockUnavailable:
            if monotonic() >= deadline:
                raise  # the last try would wait for an answer once more
            message = None  # the next acquire step finds out
        now = monotonic()
        if message:
            fence, granted_us = map(int, message.split(b":")[:2])
            # The lease began when the previous holder released.  To be safe, count the server's
            # time from its answer to that grant from when we sent our request, but not past now.
            since = min(now, sent_at + max(0, granted_us - server_us) / 1e6)
            # A message may have been read before the answer and be of a grant that was revoked.
            if fence > minted and now < since + lease:
                return Grant(fence, since)
        sent_at = now
