"""What the fitted model says, as tables in Markdown and as a chart."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from lab.bench.scaling.fit import Checked
from lab.bench.scaling.model import INSIDE, ROUND_TRIPS, Costs, Outcome, World, simulate
from loadtest.chart import Panel, draw

NODES = (1, 2, 4, 10, 30, 100)
FULL = 600
"""Buyers per node that keep the queues of its two processes longer than a batch."""

NETWORK = 0.0002
"""Seconds of a round trip between machines of one data centre."""

DATABASE_CORES = 8


def in_lock(costs: Costs, batch: int, network: float = NETWORK) -> dict[str, float]:
    """Return the seconds that a batch spends under the item's lock, by what it spends them on.

    Without the pace: the lock holder computes on one machine after the other, hardly ever beside
    another core.
    """
    return {
        "log flush, lock's way on, scheduling": costs.wait,
        "network": ROUND_TRIPS * network,
        "lock server and broker": costs.redis_batch,
        "database, per transaction": costs.database_batch * costs.held,
        "database, per purchase": costs.database * batch,
        "web process, per transaction": costs.web_batch * costs.held,
        "web process, per purchase": costs.web * INSIDE * batch,
    }


def limit(costs: Costs, batch: int, network: float = NETWORK) -> float:
    """Return the most purchases per second of one item."""
    return batch / sum(in_lock(costs, batch, network).values())


def cluster(nodes: int, buyers: int, items: int = 1) -> World:
    """Return web nodes of two cores and two processes beside one database."""
    return World(nodes, 2, 2, buyers, database_cores=DATABASE_CORES, items=items, network=NETWORK)


def run(costs: Costs, world: World) -> Outcome:
    """Simulate long enough for every buyer to come twice."""
    slowest = limit(costs, 256) if world.items == 1 else 1000.0
    return simulate(costs, world, seconds=2.0 + 2.5 * world.buyers / slowest)


def checked_table(checked: Sequence[Checked]) -> Iterator[str]:
    """Yield the measured points beside the model."""
    yield (
        "| processes | batch ≤ | items | buyers | measured per s | batch "
        "| model per s | batch | error |"
    )
    yield "|---|---|---|---|---|---|---|---|---|"
    for each in checked:
        setup, said = each.point.setup, each.said
        mark = " (fitted)" if setup.fitted else ""
        yield (
            f"| {setup.workers} | {setup.max_batch} | {setup.items:,} | {setup.connections:,} "
            f"| {each.point.rate:,.0f} | {each.point.batch:.0f} "
            f"| {said.rate:,.0f} | {said.batch:.0f} | {each.error:+.0%}{mark} |"
        )


def lock_table(costs: Costs) -> Iterator[str]:
    """Yield what a batch spends its time under the lock on, and what halving each would give."""
    yield "| under the lock | ms for 256 | ms for 16 | limit for 256, if this were half |"
    yield "|---|---|---|---|"
    large, small = in_lock(costs, 256), in_lock(costs, 16)
    total = sum(large.values())
    for name, seconds in large.items():
        half = 256 / (total - seconds / 2)
        yield f"| {name} | {seconds * 1e3:.1f} | {small[name] * 1e3:.1f} | {half:,.0f} |"
    yield (
        f"| all: the limit is {limit(costs, 256):,.0f} per s in batches of 256, "
        f"{limit(costs, 16):,.0f} in batches of 16 | {total * 1e3:.1f} "
        f"| {sum(small.values()) * 1e3:.1f} | |"
    )


def node_capacity(costs: Costs, batch: int = 256) -> float:
    """Return the purchases per second that the cores of one node can take."""
    return 2 / (costs.web + costs.web_batch / batch) / costs.pace


def series(costs: Costs) -> dict[str, list[tuple[int, Outcome]]]:
    """Run the cases of the chart: web nodes, and what came of it."""
    return {
        "hot": [(n, run(costs, cluster(n, n * FULL))) for n in NODES],
        "crowd": [(n, run(costs, cluster(n, 2000))) for n in NODES],
        "warm": [(n, run(costs, cluster(n, 200 * n, items=1000))) for n in NODES[:-1]],
    }


TITLES = {
    "hot": ("One hot item, every queue full", f"{FULL} buyers per node"),
    "crowd": ("One hot item, the same crowd", "2,000 buyers on all nodes together"),
    "warm": ("A thousand warm items", f"200 buyers per node, a database of {DATABASE_CORES} cores"),
}


def series_tables(found: dict[str, list[tuple[int, Outcome]]]) -> Iterator[str]:
    """Yield a table per case."""
    for case, rows in found.items():
        title, hint = TITLES[case]
        yield f"\n{title} ({hint}):\n"
        yield "| web nodes | purchases per s | batch | median wait |"
        yield "|---|---|---|---|"
        for nodes, said in rows:
            yield f"| {nodes} | {said.rate:,.0f} | {said.batch:.0f} | {said.median:.2f} s |"


def chart(found: dict[str, list[tuple[int, Outcome]]]) -> str:
    """Draw the cases."""
    panels = [
        Panel(
            TITLES[case][0],
            f"purchases per second; {TITLES[case][1]}",
            [(f"{nodes} nodes" if nodes > 1 else "1 node", said.rate) for nodes, said in rows],
            lambda value: f"{value:,.0f}",
        )
        for case, rows in found.items()
    ]
    about = "Simulated: two cores and two processes per node, costs fitted to measured points."
    return draw("How far web nodes carry", about, panels, {})
