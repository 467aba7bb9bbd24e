"""Hooks that a project may set: for traces, failpoints and new outbox messages. None does anything
until it is set.

This package imports no tracing library. `shop/operating/telemetry.py` sets the hooks to those of
OpenTelemetry. Failpoints are named lines at which a proof kills or pauses the process; production
never sets that hook. The idea is FreeBSD's fail(9).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from types import NoneType
from typing import Any

from inventory.outcomes import CartTicket

LOCKED = "locked"
BEFORE_COMMIT = "before-commit"
AFTER_COMMIT = "after-commit"
BEFORE_ANSWER = "before-answer"
FOLLOW_UP = "follow-up"


def _no_message(_topic: str, _parent: str) -> AbstractContextManager[object]:
    return nullcontext()


@dataclass(slots=True)
class Hooks:
    """What a project may set.

    Attributes:
        current: returns the current span, which a purchase remembers as its `trace`; None if
            there is none.
        batch: called with a batch; the context manager spans its sale.
        parent: returns the current span as a W3C `traceparent`, which a message stores; empty
            if there is none.
        message: called with a message's topic and the `traceparent` that it stored, or an empty
            text; the context manager spans its handler.
        written: called after a commit that wrote messages. It must return at once and not raise:
            the committing request waits for it.
        failpoint: called with the name of each failpoint that this process reaches.
    """

    current: Callable[[], Any] = NoneType
    batch: Callable[[Sequence[CartTicket]], AbstractContextManager[object]] = nullcontext
    parent: Callable[[], str] = str
    message: Callable[[str, str], AbstractContextManager[object]] = _no_message
    written: Callable[[], object] = bool
    failpoint: Callable[[str], object] = str


hooks = Hooks()
