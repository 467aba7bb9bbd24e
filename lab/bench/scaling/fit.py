"""Fit the model's costs to measured points, and compare it with the others."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from lab.bench.scaling.measure import Point
from lab.bench.scaling.model import Costs, Outcome, World, simulate

WAITS = [0.0005 * 1.25**step for step in range(20)]
"""Seconds to try for what a transaction waits without CPU: 0.5 to 35 ms."""

PACES = [1.0 + 0.1 * step for step in range(13)]
"""Seconds on the clock to try for a second of CPU."""


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
    return World(1, setup.workers, cores, setup.connections, max_batch=setup.max_batch)


def fit(points: Sequence[Point], cores: int) -> Costs:
    """Return the costs that explain the fitted points.

    CPU times are lines over 1 / batch, by least squares: a part per purchase and a part per
    transaction. What remains, the wait and the pace, are those of :data:`WAITS` and :data:`PACES`
    that give the fitted points' rates best, found in turns.
    """
    seen = [point for point in points if point.setup.fitted]
    web, web_batch = _line(seen, [point.web_us for point in seen])
    database, database_batch = _line(seen, [point.database_us for point in seen])
    _, redis_batch = _line(seen, [point.redis_us for point in seen])
    load = sum(point.load_us for point in seen) / len(seen) / 1e6
    costs = Costs(web, database, web_batch, database_batch, redis_batch, load, 0.0)
    for _ in range(2):
        for name, values in (("wait", WAITS), ("pace", PACES)):
            tried = [replace(costs, **{name: value}) for value in values]
            costs = min(tried, key=lambda each: _badness(each, seen, cores))
    return costs


def check(costs: Costs, points: Sequence[Point], cores: int) -> list[Checked]:
    """Run the model for all points."""
    return [Checked(point, simulate(costs, world_of(point, cores))) for point in points]


def _badness(costs: Costs, seen: Sequence[Point], cores: int) -> float:
    return sum(
        math.log(max(each.said.rate, 1.0) / each.point.rate) ** 2
        for each in check(costs, seen, cores)
    )


def _line(seen: Sequence[Point], microseconds: Sequence[float]) -> tuple[float, float]:
    """Return seconds per purchase and per transaction; neither is negative."""
    xs = [1 / point.batch for point in seen]
    middle_x, middle_y = sum(xs) / len(xs), sum(microseconds) / len(microseconds)
    spread = sum((x - middle_x) ** 2 for x in xs) or 1.0
    pairs = zip(xs, microseconds, strict=True)
    slope = max(0.0, sum((x - middle_x) * (y - middle_y) for x, y in pairs) / spread)
    return max(0.0, middle_y - slope * middle_x) / 1e6, slope / 1e6
