"""What happened in one simulated run, in order: the raw material of every timeline."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

MICROSECONDS = 1_000_000


class Kind(StrEnum):
    """What sort of thing happened."""

    COMMAND = "command"
    """A command ran on a server and was answered."""
    LOST = "lost"
    """A command ran on a server; its answer never arrived."""
    SLEEP = "sleep"
    ENTER = "enter"
    """The client has the lock, as far as it knows, and goes in."""
    LEAVE = "leave"
    GIVE_UP = "gives up"
    FAULT = "fault"
    """The scheduler did something to a client or a server."""
    NOTE = "note"
    VIOLATION = "violation"
    """The moment it goes wrong."""


class Wrong(StrEnum):
    """The ways in which a lock can be wrong; the values are what a person reads."""

    TWO_HOLDERS = "two holders at once"
    NOBODY_ENTERS = "nobody can ever enter"
    NOT_THEIRS = "another's lock released"
    MOVED = "another's lock changed"
    ORPHANED = "the lock is held by nobody"
    ORDER = "order violated"
    STALE_WRITE = "a stale write accepted"
    ASLEEP = "a waiter sleeps beside a free lock"
    GHOST = "the lock is given to the dead"
    KEPT = "a released lock is still held"
    STILLBORN = "a lease that is over already"


@dataclass(slots=True)
class Event:
    """One line of a timeline.

    `at` is virtual microseconds since the start; `who` the client, or "" for the scheduler;
    `server` where a command went; `what` its words, or free text; `answer` the reply.
    """

    at: int
    who: str
    kind: Kind
    what: Any
    answer: Any = None
    server: str = ""


@dataclass(frozen=True, slots=True)
class Violation:
    """A check that failed: which, when (virtual microseconds), who was involved, and why."""

    wrong: Wrong
    at: int
    clients: tuple[str, ...]
    why: str
