"""The one who only looks, mostly at pages."""

from __future__ import annotations

from random import Random

from loadtest.shopper import Shopper


def look_around(shopper: Shopper, random: Random) -> None:
    """Look at the sale a few times: the home page, the sale's page, or through the API."""
    for _ in range(random.randint(1, 4)):
        random.choice([shopper.see_home, shopper.see_sale, shopper.look])()
        shopper.sleep(random.random() / 2)
