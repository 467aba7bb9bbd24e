"""One sample of purchases from unlimited stock: how many per second, and what they cost."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lab.bench.cpu import CpuClock, CpuTime
from lab.bench.rows import ENOUGH_STOCK
from lab.bench.run import DRAIN, purchases
from lab.stack.stack import Stack
from loadtest import bench_client
from shop.catalogue.sales import open_sale


@dataclass(frozen=True, slots=True)
class Sold:
    """A sample.

    Attributes:
        accepted: purchases.
        rate: of them, per second.
        cpu: microseconds of CPU time per purchase.
    """

    accepted: int
    rate: float
    cpu: CpuTime


def sell(
    stack: Stack, clock: CpuClock, buyers: Sequence[str], *, connections: int, seconds: float
) -> Sold:
    """Open a sale and let buyers purchase from it.

    Args:
        stack: with a web server.
        clock: of this stack.
        buyers: their tokens.
        connections: open at the same time.
        seconds: for which they send purchases.
    """
    sale = open_sale(stock=ENOUGH_STOCK, price=99_900, limit=ENOUGH_STOCK)
    before = clock.read()
    load = bench_client.run(
        "127.0.0.1",
        stack.port,
        purchases([sale.pk], buyers),
        connections=connections,
        seconds=seconds,
        timeout=DRAIN,
    )
    accepted = load.statuses.get(201, 0)
    cpu = clock.read().per(before, accepted)
    return Sold(accepted, round(accepted / load.seconds, 1), cpu)
