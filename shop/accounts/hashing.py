"""Password hashers that leave the loop of a gevent worker.

A hash takes half a second of a processor. Computed on the loop, two clients that try passwords
would keep everybody else from buying. Django's hashers are used as they are, so passwords that
are stored stay valid. Views, forms, the admin and the hash for unknown names all come here.

Without a desk (commands, tests, threads) the hash is computed where it is asked for.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

from django.contrib.auth import hashers

from inventory.postgresql.base import lend_connections
from shop.operating import clients, logs, metrics
from shop.refusals import Refusal

desk: Any = None
"""The desk of this process (`serving/desk.py`), which `gunicorn.conf.py` sets."""

full: type[Exception] = Exception
"""What the desk raises when too many wait; set together with it."""

R = TypeVar("R")


def elsewhere(work: Callable[[], R]) -> R:
    """Return what `work` returns, computed outside the event loop if this process has one.

    Raises:
        Refusal: `busy`: too many wait. Nothing was done.
    """
    if desk is None:
        return work()
    lend_connections()  # others may use it while this request waits
    try:
        result: R = desk.run(clients.address(logs.request.get() or {}), work)
    except full:
        metrics.HASHES_REFUSED.inc()
        raise Refusal("busy") from None
    return result


class _Elsewhere:
    """For hashers whose `verify` calls `encode`."""

    def encode(self, *arguments: Any, **named: Any) -> str:
        """Return the hash."""
        found: str = elsewhere(partial(super().encode, *arguments, **named))  # type: ignore[misc]
        return found


class Pbkdf2(_Elsewhere, hashers.PBKDF2PasswordHasher):
    """Django's default."""


class Pbkdf2Sha1(_Elsewhere, hashers.PBKDF2SHA1PasswordHasher):
    """Of accounts from other shops."""


class BcryptSha256(_Elsewhere, hashers.BCryptSHA256PasswordHasher):
    """Of accounts from other shops."""


class Scrypt(_Elsewhere, hashers.ScryptPasswordHasher):  # type: ignore[name-defined,misc]
    """Of accounts from other shops."""


class Argon2(_Elsewhere, hashers.Argon2PasswordHasher):
    """Of accounts from other shops."""

    def verify(self, password: str, encoded: str) -> bool:
        """Return whether the password is right; this one's does not call `encode`."""
        return elsewhere(partial(super().verify, password, encoded))
