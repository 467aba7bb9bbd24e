"""Buyers' bearer tokens, signed so that verification needs no query.

A token names the buyer, its expiry within a day, and its generation. Deactivating or deleting the
account or giving it a new password starts the buyer's next generation, and every process refuses
older tokens within a minute (`shop/accounts/revocation.py`). A reactivated user asks for a new one.
Rotating `SECRET_KEY` invalidates all tokens at once.
"""

from __future__ import annotations

import time
from functools import cache, lru_cache

from django.core.signing import BadSignature, Signer
from django.db.models import OuterRef, Subquery
from django.db.models.functions import Coalesce

from shop.accounts.models import TokenGeneration, User
from shop.accounts.revocation import Generations

LIFETIME = 24 * 3600
"""Seconds."""


class BadToken(Exception):
    """The token is invalid, revoked or has expired."""


def issue_to(user: User) -> str:
    """Make a token for a user who has signed in.

    Raises:
        BadToken: since `user` was read, the account was deactivated or deleted or got a new
            password.
    """
    # In one query: a generation that is read later may have begun by the user's deactivation.
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
        generation: of the user's tokens; 0 for a user who was just created.
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


@cache
def generations() -> Generations:
    """Return the generations that this process knows."""
    return Generations(LIFETIME)


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
