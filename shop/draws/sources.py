"""Public values: what decides a draw together with the seed, and nobody knows before the close.

A draw names its source in words (`source`), and the words are part of the chain's first hash, so
they cannot be changed later. Staff enter the value of most sources, such as the numbers of a
lottery or the hash of a block, when it is known. The values of the sources here are fetched.

To add one, write a function of the moment of the close that returns the value, or raises
`NotKnownYet`, and give it a name in `FETCHED`.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable
from datetime import datetime, timedelta
from urllib.error import URLError
from urllib.request import urlopen

from shop import environment

AFTER = timedelta(seconds=60)
"""From the close to the beacon's round. The last hash is published in the meantime."""

TIMEOUT = 5.0
"""Seconds for an answer of the beacon."""

QUICKNET = "52db9ba70e0cc0f6eaf7803dd07447a1f5477735fd3f661792ba94600c84e971"
GENESIS, PERIOD = 1_692_803_367, 3
"""The chain `quicknet` of drand: the time of its first round, and the seconds between rounds."""


class NotKnownYet(Exception):
    """The value is not there yet, or the source does not answer."""


def fetch_drand(closed: datetime) -> str:
    """Return a round of the League of Entropy's beacon, with its randomness.

    It is the first round that begins at least `AFTER` the close, so nobody chooses it.
    """
    earliest = (closed + AFTER).timestamp()
    number = math.ceil((earliest - GENESIS) / PERIOD) + 1
    begins = GENESIS + (number - 1) * PERIOD
    if time.time() < begins:
        raise NotKnownYet(f"round {number} begins at {begins} s after 1970")
    url = f"{environment.text('DRAND_URL').rstrip('/')}/{QUICKNET}/public/{number}"
    try:
        with urlopen(url, timeout=TIMEOUT) as answer:
            found = json.load(answer)
        if found["round"] != number:
            raise NotKnownYet(f"the beacon answered round {found['round']}, not {number}")
        return f"{number} {bytes.fromhex(found['randomness']).hex()}"
    except (URLError, OSError, ValueError, KeyError, TypeError) as error:
        raise NotKnownYet(f"{url}: {error}") from error


FETCHED: dict[str, Callable[[datetime], str]] = {"drand quicknet": fetch_drand}
"""Functions by the source that a draw names."""


def is_fetched(source: str) -> bool:
    """Return whether a source's value is fetched; otherwise staff enter it."""
    return source in FETCHED


def fetch(source: str, closed: datetime) -> str:
    """Return a source's value for a draw that was closed at that moment.

    Raises:
        NotKnownYet: it is not there.
    """
    return FETCHED[source](closed)
