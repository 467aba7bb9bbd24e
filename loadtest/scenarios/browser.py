"""A buyer who only looks at the sale."""

from __future__ import annotations

from random import Random

from loadtest.shopper import Shopper


def look_around(shopper: Shopper, random: Random) -> None:
    """Look at the sale a few times."""
    for _ in range(random.randint(1, 4)):
        shopper.look()
        shopper.sleep(random.random() / 2)
