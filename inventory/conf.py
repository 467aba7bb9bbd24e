"""The settings of this app, each with its default and the reason for it.

None is required. They are read from Django's settings at every use, so that `override_settings`
works; code that keeps a value drops it on `setting_changed`. `inventory.checks` reports
invalid values.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from django.conf import settings
from django.core.signals import setting_changed
from django.utils.module_loading import import_string

T = TypeVar("T")

PREFIX = "INVENTORY_"


@dataclass(frozen=True, slots=True)
class Setting(Generic[T]):
    """One setting of a project.

    Attributes:
        name: in Django's settings.
        default: used if the project sets nothing, or an empty string.
        must_be: the allowed values, in words; for the check's message.
        is_right: whether a value is allowed.
    """

    name: str
    default: T
    must_be: str
    is_right: Callable[[Any], bool]

    def get(self) -> T:
        """Return the project's value, or the default."""
        value: Any = getattr(settings, self.name, "")
        found: T = self.default if value == "" else value
        return found

    def on_change(self, forget: Callable[[], object]) -> None:
        """Call `forget` whenever a test overrides this setting or restores it."""
        on_change(self.name, forget)


def on_change(name: str, forget: Callable[[], object]) -> None:
    """Call `forget` whenever a test overrides the setting of that name or restores it."""

    def changed(*, setting: str, **_: object) -> None:
        if setting == name:
            forget()

    # A strong reference: nothing else refers to this function.
    setting_changed.connect(changed, weak=False)


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 1


def _is_duration(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and value > 0


def _is_callable_path(value: Any) -> bool:
    try:
        return callable(import_string(value))
    except (ImportError, AttributeError, TypeError):
        return False


def _is_no_or_callable_path(value: Any) -> bool:
    return value == "" or _is_callable_path(value)


REDIS: Setting[str] = Setting(
    "INVENTORY_REDIS",
    "",
    "the dotted path of a function without arguments that returns redis-py's client",
    _is_no_or_callable_path,
)
"""The client for the items' locks, which the project makes: it knows its servers, and how long its
buyers may wait for an answer. Without one, items are sold without a lock: the database decides as
before, and a crowd for one item is served more slowly."""

MAX_BATCH: Setting[int] = Setting(
    "INVENTORY_MAX_BATCH", 256, "a whole number of at least 1", _is_count
)
"""Purchases per transaction. Larger batches add little throughput, and all their buyers wait for
the last row."""

MAX_WAITING: Setting[int] = Setting(
    "INVENTORY_MAX_WAITING", 5000, "a whole number of at least 1", _is_count
)
"""Purchases that may wait for an item per process; further ones are refused as busy. A process
sells this many in one or two seconds, so no buyer waits longer to be refused."""

MAX_WAIT: Setting[float] = Setting(
    "INVENTORY_MAX_WAIT", 10, "a number of seconds above 0", _is_duration
)
"""Seconds after which a waiting purchase is refused as busy; less than the usual timeouts of
clients and proxies, so that buyers get an answer."""

SELLER: Setting[str] = Setting(
    "INVENTORY_SELLER",
    "inventory.selling.queue.Seller",
    "the dotted path of a class or function that can be called without arguments",
    _is_callable_path,
)
"""What sells, with the method `sell` of the default. Another one is for experiments: the default
is what has been tested to be right and fast."""

ALL: tuple[Setting[Any], ...] = (REDIS, MAX_BATCH, MAX_WAITING, MAX_WAIT, SELLER)
