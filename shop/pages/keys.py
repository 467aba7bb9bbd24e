"""The idempotency key of a page's form, which also says the amount that the page showed.

A form states its key, so whatever the key says is what the buyer of that page saw, and no form can
leave it out. It is a UUID of version 8 (RFC 9562), whose contents an application may choose: 60
random bits, which tell a buyer's purchases apart, and the amount in 62.
"""

from __future__ import annotations

import secrets
from uuid import UUID, uuid4

VERSION = 8 << 76
VARIANT = 0b10 << 62
AMOUNT = 2**62 - 1
RANDOM = 2**60 - 1


def new_key(amount: int) -> UUID:
    """Return a key for a form that shows this amount, in minor units; another one each time.

    An amount of more than 62 bits, for which nothing is sold, is left out.
    """
    if not 0 <= amount <= AMOUNT:
        return uuid4()
    random = secrets.randbits(60)
    high, low = random >> 12, random & 0xFFF
    return UUID(int=high << 80 | VERSION | low << 64 | VARIANT | amount)


def amount_of(key: UUID) -> int | None:
    """Return the amount that the form with this key showed; None if the key does not say one."""
    return key.int & AMOUNT if key.version == 8 else None
