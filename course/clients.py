"""Clients that several lessons share: of one Redis server, and of the production lock."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from course.simulator import production
from course.simulator.simulation import KEY, Simulation

TTL = 10  # every lease of the course, in seconds


def redis_clients(
    simulation: Simulation,
    *,
    kind: Callable[..., Any],
    names: str = "AB",
    work: Mapping[str, float] | None = None,
    gaps: Sequence[float] = (0.0, 0.1, 0.2),
    skew: Mapping[str, float] | None = None,
    writes: bool = False,
    timeout: float = 30.0,
    left_behind: tuple[str, ...] = (),
    visitor: bool = False,
    replicated: bool = False,
) -> None:
    """Add clients of one server, A first, then B, …

    `work` is in seconds, `gaps` are the arrival times, `skew` says how far a clock is ahead;
    `left_behind` is a command that ran before; with `visitor`, one more client comes a day later.
    """
    server = simulation.redis(replicated=replicated)
    if left_behind:
        server.model.execute([word.encode() for word in left_behind])
        simulation.given(("keeps, from before:", *left_behind), server=server.name)
    for place, name in enumerate(names):
        simulation.client(
            name,
            lambda: kind(simulation.redis_client(server), KEY),
            timeout=timeout,
            work=(work or {}).get(name, 2.0),
            after=gaps[place],
            skew=(skew or {}).get(name, 0.0),
            writes=writes,
        )
    if visitor:
        simulation.visitor(lambda: kind(simulation.redis_client(server), KEY))


def production_clients(
    simulation: Simulation,
    *,
    names: str = "AB",
    work: Mapping[str, float] | None = None,
    gaps: Sequence[float] = (0.0, 0.1, 0.2),
    writes: bool = True,  # they always write, with their token
) -> None:
    """Add clients of the production lock."""
    server = simulation.redis(key=production.LOCK_KEY, replicated=True)
    for place, name in enumerate(names):
        holder = production.Holder(simulation, name, (work or {}).get(name, 2.0))
        simulation.start(name, production.Client(server, holder).run, after=gaps[place])
