"""Buyers' bearer tokens: signed, so that verifying one needs no database.

A token says who the buyer is and until when. It cannot be called back before it ends, which is
why it ends within a day; rotate ``SECRET_KEY`` to end all of them at once.
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
        BadToken: forged, damaged, or ended.
    """
    buyer, ends = _read(token)
    if time.time() >= ends:
        raise BadToken("the token has ended")
    return buyer


# A buyer sends the same token again and again; checking its signature once is enough.
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
