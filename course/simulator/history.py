"""The events of one simulated run, from which timelines are made."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum
from functools import reduce
from typing import Any, Self

MICROSECONDS = 1_000_000

_ = str  # marks a text for translation; Django's marker needs settings, a judged lock has none

Say = Callable[[str], str]
"""Returns a text in the reader's language; `str` leaves it in English."""


class Text(str):
    """A text in English, of a template and its values, that can be said in another language."""

    parts: tuple[object, ...]

    def __new__(cls, template: str, *values: object) -> Self:
        """Return the template with its values, as with `%`."""
        text = super().__new__(cls, template % values)
        text.parts = (template, *values)
        return text

    def __getnewargs__(self) -> tuple[object, ...]:  # type: ignore[override]
        return self.parts


def said(text: Any, say: Say) -> Any:
    """Return a text in the reader's language; anything else as it is."""
    if not isinstance(text, Text):
        return text
    template, *values = text.parts
    return say(str(template)) % tuple(said(value, say) for value in values)


def listed(names: Iterable[str]) -> str:
    """Return "A and B"."""
    return reduce(lambda those, name: Text(_("%s and %s"), those, name), names)


class Kind(StrEnum):
    """The kind of an event."""

    COMMAND = "command"
    """A server executed a command and the client got the answer."""
    LOST = "lost"
    """A server executed a command; its answer was lost."""
    SLEEP = "sleep"
    ENTER = "enter"
    """The client believes that it holds the lock."""
    LEAVE = "leave"
    GIVE_UP = "gives up"
    FAULT = "fault"
    """The scheduler injected a fault into a client or a server."""
    NOTE = "note"
    GIVEN = "given"
    """A condition that holds from the start, before anybody acts."""
    VIOLATION = "violation"
    """The moment at which a check fails."""


class Wrong(StrEnum):
    """The ways in which a lock can fail; users see the values, translated if a lesson has them."""

    TWO_HOLDERS = _("two holders at once")
    NOBODY_ENTERS = _("nobody can ever enter")
    OUTLIVED = _("a dead holder's lock outlives its lease")
    NOT_THEIRS = _("another's lock released")
    MOVED = _("another's lock changed")
    ORPHANED = _("the lock is held by nobody")
    ORDER = _("order violated")
    STALE_WRITE = _("a stale write accepted")
    ASLEEP = _("a waiter sleeps beside a free lock")
    GHOST = "the lock is given to the dead"
    KEPT = _("a released lock is still held")
    STILLBORN = "a lease that is over already"
    MISTAKEN = "a lease trusted beyond its end"
    LOST = "a living holder loses its lock"
    ERROR = "an error of another kind"
    FALSE_LOSS = "a loss that was none"
    UNNOTICED = "a loss that is not reported"
    LEFTOVER = "a client that gave up is still in the queue"
    TOKEN = "a token that does not grow"
    LITTER = "a key that never expires"
    FALSE_ANSWER = _("a buyer told what is not so")
    DOUBLED = _("an order that is not there once")
    FORGOTTEN = _("a message forgotten")
    OVERSOLD = _("oversold")
    UNDERSOLD = _("undersold")
    BOOKS = _("the books do not balance")


OF_THE_SHOP = {
    Wrong.FALSE_ANSWER,
    Wrong.DOUBLED,
    Wrong.FORGOTTEN,
    Wrong.OVERSOLD,
    Wrong.UNDERSOLD,
    Wrong.BOOKS,
}


@dataclass(slots=True)
class Event:
    """One line of a timeline.

    `at` is virtual microseconds since the start; `who` the client, or "" for the scheduler;
    `server` the target of a command; `what` the command or free text; `answer` the reply.
    """

    at: int
    who: str
    kind: Kind
    what: Any
    answer: Any = None
    server: str = ""


@dataclass(frozen=True, slots=True)
class Violation:
    """A failed check: which one, when (virtual microseconds), the clients involved, and why."""

    wrong: Wrong
    at: int
    clients: tuple[str, ...]
    why: str
