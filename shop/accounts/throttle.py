"""Slow down password guessing: a few failed attempts per user name and time, in all processes.
Mails are limited in `shop.accounts.addresses`.

Counted per user name and not per address, because behind a proxy all buyers may share one, and
guessers have many. The price: anyone can keep a buyer from signing in for some minutes.
Existing sessions and tokens go on. While Redis does not answer, nothing is counted.

An account's name is the normal form that is counted, so each account has its own count, whatever
spelling is typed: no other account's success resets it.
"""

from __future__ import annotations

import hashlib
from typing import Any

from django.contrib.auth.backends import ModelBackend
from django.contrib.auth.forms import AuthenticationForm
from django.core.exceptions import PermissionDenied, ValidationError
from django.http import HttpRequest

from inventory.redis import circuit
from shop.accounts.models import User, normal
from shop.redis import client
from shop.refusals import PROBLEMS, Refusal

ATTEMPTS = 10
"""Failed attempts per user name and window: 2,880 per day, against passwords that are not among the
20,000 most common ones."""

WINDOW = 5 * 60
"""Seconds from the first failed attempt until all are forgotten."""

CODE = "login_throttled"
"""Code of the refusal."""

COUNT = """
local count = redis.call('INCR', KEYS[1])
if count == 1 then redis.call('EXPIRE', KEYS[1], ARGV[1]) end
return count
"""
"""Counts before the password is checked, so that parallel attempts count too. One script, so that
no count is left without an end."""

UNCOUNT = "if redis.call('EXISTS', KEYS[1]) == 1 then redis.call('DECR', KEYS[1]) end"
"""Never makes a count, which would be one without an end."""


def _key(username: str) -> str:
    # Hashed, since users type passwords into this field by mistake.
    return f"login:{hashlib.sha256(normal(username).encode()).hexdigest()}"


def _attempts(key: str, window: int) -> int:
    return circuit().ask(lambda: int(client().eval(COUNT, 1, key, window)), otherwise=0)


def _uncount(key: str) -> None:
    circuit().ask(lambda: client().eval(UNCOUNT, 1, key), otherwise=None)


def forget(username: str) -> None:
    """Forget the failed attempts for a user name."""
    circuit().ask(lambda: client().delete(_key(username)), otherwise=0)


def is_throttled(username: str) -> bool:
    """Whether the next attempt for a user name will be refused."""
    count: Any = circuit().ask(lambda: client().get(_key(username)), otherwise=None)
    return int(count or 0) >= ATTEMPTS


class ThrottledBackend(ModelBackend):
    """Django's user names and passwords, with a limit of attempts: pages, admin and API."""

    def authenticate(
        self,
        request: HttpRequest | None,
        username: str | None = None,
        password: str | None = None,
        **more: Any,
    ) -> User | None:
        """Return the user; None if name or password are wrong.

        Raises:
            PermissionDenied: too many attempts; no other backend is asked.
            Refusal: `busy`: the password could not be checked now. The attempt does not count.
        """
        if username is None or password is None:
            return None
        if _attempts(_key(username), WINDOW) > ATTEMPTS:
            raise PermissionDenied
        try:
            user = super().authenticate(request, normal(username), password, **more)
        except Refusal:  # too many wait for their hash: this password was not tried
            _uncount(_key(username))
            raise
        if user is not None:
            forget(user.get_username())
        return user


class ThrottledForm(AuthenticationForm):
    """A sign-in form that says when there were too many attempts."""

    def get_invalid_login_error(self) -> ValidationError:
        """Return the error of an attempt that was refused."""
        if is_throttled(self.cleaned_data["username"]):
            return ValidationError(str(PROBLEMS[CODE].title), code=CODE)
        return super().get_invalid_login_error()
