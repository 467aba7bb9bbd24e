"""How many violations a rush finds per round, by the way in which requests are sent together."""

from __future__ import annotations

from collections.abc import Iterator
from statistics import median

from loadtest.rush.release import Release
from loadtest.rush.result import RushResult, violations
from loadtest.rush.run import rush_shop
from loadtest.shop import Level, Shop


def measure(
    shop: Shop, units: int, buyers: int, rounds: int, *, host: str, owned: bool = False
) -> Iterator[str]:
    """Rush the stock in both ways, a round of each in turn, and yield a table.

    Args:
        shop: an unguarded one.
        units, buyers, rounds, host, owned: as for `rush_shop`; so many rounds in each way.
    """
    ways = {release: RushResult(shop.name, shop.version, []) for release in Release}
    for _ in range(rounds):
        for release, result in ways.items():
            one = rush_shop(
                *(shop, units, buyers, 1),
                host=host,
                release=release,
                owned=owned,
                shrink=False,
                levels=(Level.STOCK,),
            )
            result.rounds += one.rounds
            result.reason = result.reason or one.reason
    yield "| released | broken rounds | violations per round: median (least to most) |"
    yield "| --- | --- | --- |"
    for release, result in ways.items():
        found = [violations(each) for each in result.rounds] or [0]
        yield (
            f"| {release} | {result.broken_rounds} of {len(result.rounds)} | "
            f"{median(found):g} ({min(found)} to {max(found)}) |"
        )
        if result.reason:
            yield result.reason
