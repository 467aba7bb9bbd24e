"""The clients that locks accept: redis-py's and valkey-py's, found by their class.

valkey-py is a fork of redis-py with the same connections; its errors are translated to redis-py's,
so that the rest of the package knows one set of errors.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from inspect import iscoroutinefunction
from types import ModuleType
from typing import Any, NoReturn

import redis.exceptions

MIN_VERSION = 5
"""The oldest redis-py whose connections have the interface that the transports use."""

if int(redis.__version__.partition(".")[0]) < MIN_VERSION:
    raise ImportError(f"locking needs redis-py {MIN_VERSION} or later, not {redis.__version__}")


@dataclass(frozen=True, slots=True)
class Driver:
    """A kind of client: which package it is from, and whether it is for asyncio or a cluster."""

    package: str
    asynchronous: bool
    cluster: bool

    @property
    def errors(self) -> ModuleType:
        """The module of the package's errors."""
        return import_module(f"{self.package}.exceptions")

    @property
    def error(self) -> type[Exception]:
        """The base class of the package's errors."""
        found: type[Exception] = getattr(self.errors, f"{self.package.capitalize()}Error")
        return found

    @property
    def cluster_error(self) -> type[Exception]:
        """The class of a cluster client's own errors, which is not below `error`."""
        found: type[Exception] = getattr(
            self.errors, f"{self.package.capitalize()}ClusterException"
        )
        return found

    def no_retry(self) -> Any:
        """Return the package's retry policy that sends nothing twice."""
        retry = import_module(f"{self.package}.{'asyncio.' * self.asynchronous}retry")
        return retry.Retry(import_module(f"{self.package}.backoff").NoBackoff(), 0)


@cache
def _driver_of_class(*mro: type) -> Driver | None:
    for each in mro:
        package, _, module = each.__module__.partition(".")
        if package in ("redis", "valkey"):
            asynchronous = module.startswith("asyncio")
            if each.__name__ in ("Redis", "Valkey"):
                return Driver(package, asynchronous, cluster=False)
            if each.__name__ in ("RedisCluster", "ValkeyCluster"):
                return Driver(package, asynchronous, cluster=True)
    return None


def driver_of(client: object, *, asynchronous: bool) -> Driver | None:
    """Return the kind of a client; None if it is none of redis-py's or valkey-py's.

    Raises TypeError for an asyncio client where a blocking one is needed, and the other way round.
    """
    found = _driver_of_class(*type(client).__mro__)
    if found is not None and found.asynchronous is not asynchronous:
        kinds = ("an asyncio", "a blocking") if asynchronous else ("a blocking", "an asyncio")
        hint = "a RedisLock" if asynchronous else "an AsyncRedisLock"
        raise TypeError(f"this lock needs {kinds[0]} client; {kinds[1]} client makes {hint}")
    return found


def address_of(pool: Any) -> str:
    """Return where a pool of connections leads, in the same words in every process."""
    place = pool.connection_kwargs
    at = getattr(pool, "service_name", None) or place.get("path")
    at = at or f"{place.get('host', 'localhost')}:{place.get('port', 6379)}"
    return f"{at}/{place.get('db') or 0}"


def close_with(owner: Any, method: str, close: Callable[[], Any]) -> None:
    """Call `close`, and await it if needed, whenever the owner's `method` is called.

    So a client's own `close` also closes the connections that its locks keep.
    """
    # Weak references: neither keeps the other, nor itself, alive.
    closing, owning = weakref.WeakMethod(close), weakref.ref(owner)

    def blocking(*args: Any, **options: Any) -> Any:
        call, own = closing(), owning()
        if call is not None:
            call()
        # Without its owner, which the garbage collector has then taken, there is nothing to close.
        return own and getattr(type(own), method)(own, *args, **options)

    async def awaiting(*args: Any, **options: Any) -> Any:
        call, own = closing(), owning()
        if call is not None:
            await call()
        return own and await getattr(type(own), method)(own, *args, **options)

    setattr(owner, method, awaiting if iscoroutinefunction(close) else blocking)


def reject(client: object) -> NoReturn:
    """Raise TypeError for something that is no client."""
    raise TypeError(f"a lock needs a client of redis-py or valkey-py, or a URL, not {client!r}")


def is_foreign(error: Exception) -> bool:
    """Return whether an error is valkey-py's or a cluster client's own, to be translated.

    An error of redis-py is raised again as it is: one that is its own cause, or is in a variable of
    a frame that it passed, would keep its frames alive, and so their leases.
    """
    return not isinstance(error, redis.exceptions.RedisError)


def translate(error: Exception) -> Exception:
    """Return redis-py's equivalent of an error: for a cluster client's own, a lost connection."""
    for kind in type(error).__mro__:
        ours = getattr(redis.exceptions, kind.__name__.replace("Valkey", "Redis"), None)
        if ours is not None:
            if issubclass(ours, redis.exceptions.RedisClusterException):
                ours = redis.exceptions.ConnectionError
            try:
                translated: Exception = ours(*error.args)
            except TypeError:
                continue  # the constructor takes something else: use a more general error
            return translated
    return error
