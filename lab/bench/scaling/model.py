"""The model: buyers, web processes, the item's lock, the database and its log, as a simulation.

A buyer's request costs its web process CPU time, waits in that process's queue, is bought with all
that wait there in one transaction under the item's lock, and costs CPU time again to be answered.
Whoever computes needs a core of its machine and, in a web process, the process itself, which runs
one request at a time.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Generator
from dataclasses import dataclass
from typing import Any

import simpy

Steps = Generator[simpy.Event, Any, Any]

SLICE = 0.001
"""Seconds of CPU until another takes its turn, as an operating system would have it."""

BEFORE, INSIDE = 0.45, 0.16
"""Shares of a purchase's web CPU before it waits, and in its transaction (docs/bench.md)."""


@dataclass(frozen=True, slots=True)
class Costs:
    """What one purchase costs, in seconds of one core, and what a transaction waits for.

    Attributes:
        web, database, redis, load: CPU per purchase.
        web_batch, database_batch, redis_batch: CPU per transaction.
        wait: per transaction, without CPU: the log's flush, round trips, the lock's way on.
        pace: seconds on the clock per second of CPU; more than 1 where others, such as the guests
            of the same host, take a core away.
    """

    web: float
    database: float
    web_batch: float
    database_batch: float
    redis_batch: float
    load: float
    wait: float
    pace: float = 1.0


@dataclass(frozen=True, slots=True)
class World:
    """What is there.

    Attributes:
        nodes: machines with web processes.
        processes: web processes per machine.
        cores: of each machine with web processes.
        database_cores: of the database's machine; 0: everything shares one machine of `cores`.
        buyers: who ask again as soon as they are answered.
        items: among which buyers choose evenly.
        max_batch: most purchases per transaction.
        network: seconds of a round trip between machines.
    """

    nodes: int
    processes: int
    cores: int
    buyers: int
    database_cores: int = 0
    items: int = 1
    max_batch: int = 256
    network: float = 0.0


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of it: purchases per second, per transaction, and seconds of the median buyer."""

    rate: float
    batch: float
    median: float


ROUND_TRIPS = 4
"""Between machines, per transaction: the lock is handed over, rows are read, written, committed."""


class _Process:
    def __init__(self, env: simpy.Environment, cores: simpy.Resource) -> None:
        self.thread = simpy.Resource(env)
        self.cores = cores
        self.waiting: dict[int, deque[simpy.Event]] = {}
        self.leading: set[int] = set()


class _Simulation:
    def __init__(self, costs: Costs, world: World, seed: int) -> None:
        self.env = env = simpy.Environment()
        self.costs, self.world, self.random = costs, world, random.Random(seed)
        hosts = [simpy.Resource(env, world.cores) for _ in range(world.nodes)]
        shared = not world.database_cores
        self.database = hosts[0] if shared else simpy.Resource(env, world.database_cores)
        self.redis = hosts[0] if shared else simpy.Resource(env)
        self.load = hosts[0] if shared else None
        self.loader = simpy.Resource(env)
        self.processes = [_Process(env, host) for host in hosts for _ in range(world.processes)]
        self.locks = [simpy.Resource(env) for _ in range(world.items)]
        self.times: list[tuple[float, float]] = []
        self.batches: list[tuple[float, int]] = []

    def compute(self, seconds: float, *needed: simpy.Resource) -> Steps:
        """Use all of `needed` for this long, in slices."""
        while seconds > 1e-9:
            requests = []
            for each in needed:
                requests.append(each.request())
                yield requests[-1]
            used = min(SLICE, seconds)
            yield self.env.timeout(used * self.costs.pace)
            for each, request in zip(needed, requests, strict=True):
                each.release(request)
            seconds -= used

    def buyer(self, process: _Process) -> Steps:
        """Buy, and buy again."""
        costs, env = self.costs, self.env
        yield env.timeout(self.random.random() * 0.05)
        while True:
            started = env.now
            if self.load:
                yield from self.compute(costs.load, self.loader, self.load)
            item = self.random.randrange(self.world.items)
            yield from self.compute(costs.web * BEFORE, process.thread, process.cores)
            bought = env.event()
            process.waiting.setdefault(item, deque()).append(bought)
            if item not in process.leading:
                process.leading.add(item)
                env.process(self.lead(process, item))
            yield bought
            after = costs.web * (1 - BEFORE - INSIDE)
            yield from self.compute(after, process.thread, process.cores)
            self.times.append((env.now, env.now - started))

    def lead(self, process: _Process, item: int) -> Steps:
        """Sell to the queue of a process, batch after batch."""
        costs, env, waiting = self.costs, self.env, process.waiting[item]
        while waiting:
            with self.locks[item].request() as turn:
                yield turn
                yield from self.compute(costs.redis_batch, self.redis)
                # The leader waits for its turn in the process, and takes who has come by then.
                yield from self.compute(costs.web_batch, process.thread, process.cores)
                size = min(len(waiting), self.world.max_batch)
                batch = [waiting.popleft() for _ in range(size)]
                inside = costs.web * INSIDE * size
                yield from self.compute(inside, process.thread, process.cores)
                yield from self.compute(costs.database_batch + costs.database * size, self.database)
                yield env.timeout(costs.wait + ROUND_TRIPS * self.world.network)
            self.batches.append((env.now, size))
            for bought in batch:
                bought.succeed()
        process.leading.discard(item)


def simulate(costs: Costs, world: World, *, seconds: float = 2.0, seed: int = 1) -> Outcome:
    """Run the model; the first half of the time does not count."""
    run = _Simulation(costs, world, seed)
    for number in range(world.buyers):
        run.env.process(run.buyer(run.processes[number % len(run.processes)]))
    run.env.run(until=seconds)
    half = seconds / 2
    times = sorted(took for at, took in run.times if at > half)
    sizes = [size for at, size in run.batches if at > half]
    if not times or not sizes:
        return Outcome(0.0, 0.0, 0.0)
    return Outcome(len(times) / half, sum(sizes) / len(sizes), times[len(times) // 2])
