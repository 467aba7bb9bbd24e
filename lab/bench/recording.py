"""The cost of recording the history: purchases per second with and without it, in turns."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta

from django.db.models import Count, Max, Min

from lab.bench.rows import ENOUGH_STOCK
from lab.proof.load_profile import Load, LoadProfile
from lab.stack.private import private_folder
from loadtest.roles import MAIN
from shop.catalogue.sales import open_sale
from shop.orders.models import Order

MIX = "rush"


@dataclass(slots=True)
class Recorded:
    """Purchases per second of each round, with and without the history."""

    on: list[float] = field(default_factory=list)
    off: list[float] = field(default_factory=list)

    def ratio(self) -> float:
        """Return on divided by off: the median of the rounds' ratios."""
        pairs = zip(self.on, self.off, strict=True)
        return statistics.median(on / off for on, off in pairs)


def compare(
    url: str, *, users: int, seconds: float, rounds: int, tell: Callable[[str], None]
) -> Recorded:
    """Sell unlimited stock to Locust's buyers, round after round.

    Args:
        url: of the shop.
        users: concurrent Locust users.
        seconds: of each sample, from the opening of its sale.
        rounds: samples of each kind.
        tell: called with progress messages.
    """
    recorded = Recorded()
    for turn in range(rounds):
        # The order alternates, because the database grows.
        for on in (True, False) if turn % 2 else (False, True):
            word = "on" if on else "off"
            tell(f"Round {turn + 1} of {rounds}: recording {word}, {users} users …")
            profile = LoadProfile(users, MIX, seed=turn + 1, stays=True)
            (recorded.on if on else recorded.off).append(_sample(url, profile, seconds, on))
    return recorded


def _sample(url: str, profile: LoadProfile, seconds: float, records: bool) -> float:
    sale = open_sale(
        stock=ENOUGH_STOCK,
        price=99_900,
        limit=ENOUGH_STOCK,
        starts_in=timedelta(seconds=profile.gathers_in),
    )
    with private_folder() as folder:
        load = Load(profile, url, {MAIN: sale.pk}, folder, records=records)
        try:
            end = time.monotonic() + profile.gathers_in + seconds
            while load.running() and time.monotonic() < end:
                time.sleep(0.1)
        finally:
            load.stop()
    # By the database's times, so that the time before the opening does not count.
    orders = Order.objects.filter(lines__sale=sale)
    sold = orders.aggregate(number=Count("pk"), first=Min("created"), last=Max("created"))
    return round(sold["number"] / (sold["last"] - sold["first"]).total_seconds(), 1)
