"""Buyers' bearer tokens, signed so that verification needs no query.

A token names the buyer and its expiry. It cannot be revoked, so it expires within a day; rotating
``SECRET_KEY`` invalidates all tokens at once.
"""

from __future__ import annotations

import time
from functools import lru_cache

from django.core.signing import BadSignature, Signer

LIFETIME = 24 * 3600
"""Seconds."""


class BadToken(Exception):
    """The token is invalid or has expired."""


def issue(buyer: int, *, lifetime: int = LIFETIME) -> str:
    """Make a token for a buyer.

    Args:
        buyer: the user's id.
        lifetime: seconds.
    """
    return _signer().sign(f"{buyer}.{int(time.time()) + lifetime}")


def verify(token: str) -> int:
    """Return the buyer of a token.

    Raises:
        BadToken: forged, damaged or expired.
    """
    buyer, ends = _read(token)
    if time.time() >= ends:
        raise BadToken("the token has expired")
    return buyer


# Buyers send the same token again and again: verify each signature once.
@lru_cache(maxsize=20_000)
def _read(token: str) -> tuple[int, int]:
    try:
        buyer, _, ends = _signer().unsign(token).partition(".")
        return int(buyer), int(ends)
    except (BadSignature, ValueError) as error:
        raise BadToken("not a token of this shop") from error


@lru_cache(maxsize=1)
def _signer() -> Signer:
    return Signer(sep="~", salt="shop.accounts.tokens")
