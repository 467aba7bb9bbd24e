"""Fit the model's costs to measured points, and compare it with the others."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from lab.bench.scaling.measure import Point
from lab.bench.scaling.model import Costs, Outcome, World, simulate
from shop.catalogue.sale_cache import FRESH

WAIT = [0.0002 * 1.5**step for step in range(9)]
"""Seconds to try for what a transaction waits without CPU: 0.2 to 5 ms."""

PACE = [1.0 + 0.1 * step for step in range(8)]
"""Seconds to try for a second of CPU while another core is at work."""

HELD = [0.4 + 0.1 * step for step in range(7)]
"""Shares to try of a transaction's CPU that delay the next one."""


@dataclass(frozen=True, slots=True)
class Checked:
    """A measured point and what the model says of it."""

    point: Point
    said: Outcome

    @property
    def error(self) -> float:
        """The model's error, as a share of what was measured."""
        return self.said.rate / self.point.rate - 1


def world_of(point: Point, cores: int) -> World:
    """Return the world of a measured point: one machine for all."""
    setup = point.setup
    return World(
        *(1, setup.workers, cores, setup.connections),
        items=setup.items,
        max_batch=setup.max_batch,
        spread=point.spread + (0,) * (setup.workers - len(point.spread)),
    )


def fit(points: Sequence[Point], cores: int) -> Costs:
    """Return the costs that explain the fitted points.

    What cannot be read from CPU times, the wait, the pace and the held share, are those that give
    the fitted points' rates best, found in turns.
    """
    seen = [point for point in points if point.setup.fitted]
    best = {"wait": WAIT[2], "pace": PACE[2], "held": HELD[-1]}
    for _ in range(2):
        for name, values in (("held", HELD), ("pace", PACE), ("wait", WAIT)):
            tried = [costs_of(seen, cores, **{**best, name: value}) for value in values]
            found = min(tried, key=lambda costs: _badness(costs, seen, cores))
            best[name] = getattr(found, name)
    return costs_of(seen, cores, **best)


def costs_of(seen: Sequence[Point], cores: int, wait: float, pace: float, held: float) -> Costs:
    """Return the costs of points, if what cannot be read from CPU times were this.

    CPU times of one item are lines over 1 / batch, by least squares: a part per purchase and a
    part per transaction. What several items cost beyond these is, in the database, shared among a
    transaction's further items, and in web processes among the sales that are read again.
    """
    one = [point for point in seen if point.setup.items == 1]
    several = [point for point in seen if point.setup.items > 1]

    def alone(points: Sequence[Point], name: str) -> list[float]:
        """The CPU times, had each core been alone."""
        return [getattr(each, name) / 1e6 / _slowed(each, cores, pace) for each in points]

    def beyond(name: str, line: tuple[float, float], per: Callable[[Point], float]) -> float:
        pairs = zip(several, alone(several, name), strict=True)
        rest = [(took - line[0] - line[1] / point.batch) / per(point) for point, took in pairs]
        return max(0.0, sum(rest) / len(rest)) if rest else 0.0

    web = _line(one, alone(one, "web_us"))
    database = _line(one, alone(one, "database_us"))
    return Costs(
        web=web[0],
        web_batch=web[1],
        web_sale=beyond("web_us", web, _sales_read),
        database=database[0],
        database_batch=database[1],
        database_item=beyond("database_us", database, lambda each: (each.items - 1) / each.batch),
        redis_batch=_line(one, alone(one, "redis_us"))[1],
        load=sum(alone(seen, "load_us")) / len(seen),
        wait=wait,
        pace=pace,
        held=held,
    )


def _sales_read(point: Point) -> float:
    """Return the share of purchases whose process had to read the sale again."""
    between = point.setup.items * point.setup.workers / point.rate
    return between / (between + FRESH)


def _slowed(point: Point, cores: int, pace: float) -> float:
    """Return how many times the CPU time it took because several cores were at work."""
    each = point.web_us + point.database_us + point.redis_us + point.load_us
    used = point.rate * each / 1e6
    if used <= 1 or cores == 1:
        return 1.0
    # With all cores at work all the time, all of it; if at least one was, this share.
    share = min(1.0, (used - 1) / (cores - 1) * cores / used)
    return 1 + (pace - 1) * share


def check(costs: Costs, points: Sequence[Point], cores: int) -> list[Checked]:
    """Run the model for all points."""
    return [Checked(point, simulate(costs, world_of(point, cores))) for point in points]


def _badness(costs: Costs, seen: Sequence[Point], cores: int) -> float:
    return sum(
        math.log(max(each.said.rate, 1.0) / each.point.rate) ** 2
        for each in check(costs, seen, cores)
    )


def _line(seen: Sequence[Point], seconds: Sequence[float]) -> tuple[float, float]:
    """Return seconds per purchase and per transaction; neither is negative."""
    xs = [1 / point.batch for point in seen]
    middle_x, middle_y = sum(xs) / len(xs), sum(seconds) / len(seconds)
    spread = sum((x - middle_x) ** 2 for x in xs) or 1.0
    pairs = zip(xs, seconds, strict=True)
    slope = max(0.0, sum((x - middle_x) * (y - middle_y) for x, y in pairs) / spread)
    return max(0.0, middle_y - slope * middle_x), slope
