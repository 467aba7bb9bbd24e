"""Buyers' bearer tokens, signed so that verification needs no query.

A token names the buyer, its expiry within a day, and its generation. Deactivating or deleting the
account or giving it a new password starts the buyer's next generation. A reactivated user asks for
a new token. Rotating `SECRET_KEY` invalidates all tokens at once.

Every process refuses tokens of older generations within a minute. Every few seconds, one of its
requests reads the generations that began while a token may still be valid, in one query. The query
grows with the accounts that ended or got a new password within a day: 10,000 of them take it 9 ms.
"""

from __future__ import annotations

import logging
import threading
import time
from datetime import timedelta
from functools import cache, lru_cache

from django.core.signing import BadSignature, Signer
from django.db import DatabaseError, InterfaceError
from django.db.models import OuterRef, Subquery
from django.db.models.functions import Coalesce, Now

from shop.accounts.models import TokenGeneration, User

log = logging.getLogger(__name__)

LIFETIME = 24 * 3600
"""Seconds."""

REFRESH = 10.0
"""Seconds after which one request reads the generations anew, while others use the last reading."""

TOO_OLD = 50.0
"""Seconds after which a reading is too old to be used, and requests wait for the next one. So a
revoked token is refused within a minute; if nothing can be read, every token is."""

WAIT = 5.0
"""Seconds that a request waits for the reading of another request."""

PAUSE = 1.0
"""Seconds after a failed reading before the next one is tried."""

MAX_TRANSACTION = timedelta(hours=1)
"""How long after its beginning a generation may be committed, and only then be visible."""


class BadToken(Exception):
    """The token is invalid, revoked or has expired."""


class Unreadable(Exception):
    """The generations could not be read for so long that no token can be trusted."""


def issue_to(user: User) -> str:
    """Make a token for a user who has signed in.

    Raises:
        BadToken: since `user` was read, the account was deactivated or deleted or got a new
            password.
    """
    # In one query: a second one could read a generation that the user's deactivation has begun
    # meanwhile, and the token would be valid.
    number = TokenGeneration.objects.filter(buyer=OuterRef("pk")).values("number")
    active = User.objects.filter(pk=user.pk, is_active=True)
    found = active.values_list("password", Coalesce(Subquery(number), 0)).first()
    if found is None or found[0] != user.password:
        raise BadToken("the account has changed")
    return issue(user.pk, generation=found[1])


def issue(buyer: int, *, generation: int = 0, lifetime: int = LIFETIME) -> str:
    """Make a token for a buyer.

    Args:
        buyer: the user's id.
        generation: number of the user's token generation; 0 for a user who was just created.
        lifetime: seconds, at most `LIFETIME`.
    """
    ends = int(time.time()) + lifetime
    return _signer().sign(f"{buyer}.{ends}.{generation}" if generation else f"{buyer}.{ends}")


def verify(token: str) -> int:
    """Return the buyer of a token.

    Raises:
        BadToken: forged, damaged, revoked or expired.
        Unreadable: the database has not answered for so long that it may have been revoked.
    """
    buyer, ends, generation = _read(token)
    if time.time() >= ends:
        raise BadToken("the token has expired")
    if generation < generations().of(buyer):
        raise BadToken("the token was revoked")
    return buyer


class Generations:
    """The generations of users' tokens, as this process has read them."""

    def __init__(self) -> None:
        self._known: dict[int, int] = {}
        self._as_of = self._not_before = float("-inf")
        self._reading = threading.Lock()

    def of(self, buyer: int) -> int:
        """Return the generation that a buyer's tokens must have at least.

        Raises:
            Unreadable: the database has not answered for too long.
        """
        age = time.monotonic() - self._as_of
        if age > TOO_OLD:
            self._wait_for_reading()
        elif age > REFRESH and self._reading.acquire(blocking=False):
            self._read_and_release()
        return self._known.get(buyer, 0)

    def _wait_for_reading(self) -> None:
        # One of the waiting requests reads; the others then find what it read.
        if self._reading.acquire(timeout=WAIT):
            self._read_and_release()
        if time.monotonic() - self._as_of > TOO_OLD:
            raise Unreadable

    def _read_and_release(self) -> None:
        try:
            now = time.monotonic()
            if now - self._as_of > REFRESH and now >= self._not_before:
                self._known = _revocations()
                self._as_of = now
        except (DatabaseError, InterfaceError) as error:
            self._not_before = time.monotonic() + PAUSE
            log.warning("the revoked tokens could not be read: %s", error)
        finally:
            self._reading.release()


def _revocations() -> dict[int, int]:
    # Only generations that began while a token of an earlier one may still be valid.
    since = Now() - timedelta(seconds=LIFETIME) - MAX_TRANSACTION
    recent = TokenGeneration.objects.filter(began__gt=since)
    return dict(recent.values_list("buyer", "number"))


generations = cache(Generations)
"""Returns the generations that this process knows."""


# Buyers send the same token again and again: verify each signature once.
@lru_cache(maxsize=20_000)
def _read(token: str) -> tuple[int, int, int]:
    try:
        buyer, ends, *generation = _signer().unsign(token).split(".")
        return int(buyer), int(ends), int(generation[0]) if generation else 0
    except (BadSignature, ValueError) as error:
        raise BadToken("not a token of this shop") from error


@lru_cache(maxsize=1)
def _signer() -> Signer:
    return Signer(sep="~", salt="shop.accounts.tokens")
