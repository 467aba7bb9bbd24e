"""Tokens with which a page of the control room speaks to the room's process.

The process has another port and so another origin. A session cookie would have to be looked up in
PostgreSQL, which the room must outlive; a signed token is checked without a server.
"""

from __future__ import annotations

from django.core.signing import TimestampSigner

LIFETIME = 15 * 60
"""Seconds that a token may be used, and that a stream lasts: a user who is no longer staff is out
after twice this time at most. The page gets a new token in time."""

_SALT = "lab.room.tokens"


def issue(user: object) -> str:
    """Make a token for a member of staff, named by their id."""
    return TimestampSigner(salt=_SALT).sign(str(user))


def verify(token: str) -> None:
    """Return if a token is valid.

    Raises:
        BadSignature: forged, damaged or expired.
    """
    TimestampSigner(salt=_SALT).unsign(token, max_age=LIFETIME)
