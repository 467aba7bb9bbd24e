"""Every setting of this app, with its default and the reason for it.

None has to be set. They are read when they are used, from Django's settings, so that
``override_settings`` works; whatever keeps one for longer drops it on ``setting_changed``.
:mod:`inventory.checks` tells what is wrong with them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from django.conf import settings
from django.core.signals import setting_changed
from redis import ConnectionPool

T = TypeVar("T")

PREFIX = "INVENTORY_"

LINES = ("admission", "lock", "connections")
"""The safeguards that a demonstration may switch off. The guard is none of them: it decides."""


@dataclass(frozen=True, slots=True)
class Setting(Generic[T]):
    """One setting of a project.

    Attributes:
        name: in Django's settings.
        default: its value where the project says nothing, or an empty text.
        must_be: what it must be, in words; for the check's message.
        is_right: whether a value is that.
    """

    name: str
    default: T
    must_be: str
    is_right: Callable[[Any], bool]

    def get(self) -> T:
        """Return the project's value, or the default."""
        value = getattr(settings, self.name, self.default)
        return self.default if value == "" else value

    @property
    def is_set(self) -> bool:
        """Whether the project says something."""
        return getattr(settings, self.name, "") != ""

    def on_change(self, forget: Callable[[], object]) -> None:
        """Call ``forget`` whenever a test overrides this setting, and when the test is over."""

        def changed(*, setting: str, **_: object) -> None:
            if setting == self.name:
                forget()

        # Strongly, since nothing else refers to this function.
        setting_changed.connect(changed, weak=False)


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 1


def _is_duration(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and value > 0


def _is_lines(value: Any) -> bool:
    return isinstance(value, Collection) and not isinstance(value, str) and set(value) <= set(LINES)


def _is_redis_url(value: Any) -> bool:
    try:
        ConnectionPool.from_url(value)  # which does not connect
    except (ValueError, AttributeError, TypeError):
        return False
    return True


REDIS_URL: Setting[str] = Setting(
    "REDIS_URL",
    "redis://127.0.0.1:6379/0",
    "a URL such as redis://:password@host:6379/0, rediss://… or unix://…",
    _is_redis_url,
)
"""Item locks and sold-out hints. The default is where Redis listens when it was just installed. It
has no prefix because a shop often has it already, for its cache or for Celery."""

MAX_BATCH: Setting[int] = Setting(
    "INVENTORY_MAX_BATCH", 256, "a whole number of at least 1", _is_count
)
"""Purchases in one transaction. A larger batch gains little more throughput, and all its buyers
wait for its last row."""

MAX_WAITING: Setting[int] = Setting(
    "INVENTORY_MAX_WAITING", 5000, "a whole number of at least 1", _is_count
)
"""Purchases that wait for an item in a process; the next one is refused as busy. A process sells
these in one or two seconds, so nobody waits long to be told."""

MAX_WAIT: Setting[float] = Setting(
    "INVENTORY_MAX_WAIT", 10, "a number of seconds above 0", _is_duration
)
"""Seconds after which a waiting purchase is refused as busy; less than the time after which
clients and proxies usually give up, so that buyers get an answer."""

SWITCHED_ON: Setting[Collection[str]] = Setting(
    "INVENTORY_LINES", LINES, f"a list of {', '.join(LINES)}", _is_lines
)
"""Lines of defence that are on: all. Only demonstrations and tests switch one off."""

ALL: tuple[Setting[Any], ...] = (REDIS_URL, MAX_BATCH, MAX_WAITING, MAX_WAIT, SWITCHED_ON)
