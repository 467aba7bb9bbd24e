"""The model: buyers, web processes, items' locks, the database and its log, as a simulation.

A buyer's request costs its web process CPU time, waits in that process's queue, is bought with all
that wait there in one transaction under the item's lock, and costs CPU time again to be answered.
A process that sells several items sells those with few waiting purchases in one transaction
without their locks, as :mod:`inventory.selling.several_items` does. Each computation needs a core
of its machine and, in a web process, the process itself, which runs one request at a time.
"""

from __future__ import annotations

import random
from collections import defaultdict, deque
from collections.abc import Generator
from dataclasses import dataclass
from typing import Any

import simpy

from inventory.selling.several_items import FEW, GATHER, MAX_ITEMS
from shop.catalogue.sale_cache import FRESH

Steps = Generator[simpy.Event, Any, Any]

SLICE = 0.001
"""Seconds of CPU until another takes its turn, as an operating system would have it."""

BEFORE, INSIDE = 0.45, 0.16
"""Shares of a purchase's web CPU before it waits, and in its transaction (docs/bench.md)."""

LAST = 0.55
"""Share of a transaction's time in the database that its last message takes, which locks the items'
rows: 2.4 of 4.4 ms for 64 purchases. Nearly all that further items cost comes on top of it."""


@dataclass(frozen=True, slots=True)
class Costs:
    """What one purchase costs, in seconds of one core, and what a transaction waits for.

    Attributes:
        web, database, redis, load: CPU per purchase.
        web_batch, database_batch, redis_batch: CPU per transaction.
        database_item: CPU per item of a transaction beyond the first.
        web_sale: CPU to read a sale that the process has not read for :data:`FRESH`.
        wait: per transaction, without CPU: the log's flush, round trips, the lock's way on.
        pace: seconds that a second of CPU takes while another core of the machine is at work.
            Cores share caches and memory, and a virtual machine's two are often one, in halves.
        held: share of a transaction's CPU that delays the next transaction of the queue or the
            lock. The rest, such as telling the broker and ending the leader's request, is done
            beside it.
    """

    web: float
    database: float
    web_batch: float
    database_batch: float
    redis_batch: float
    load: float
    wait: float
    pace: float = 1.0
    held: float = 1.0
    web_sale: float = 0.0
    database_item: float = 0.0


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
        spread: buyers at each process; empty: spread evenly.
    """

    nodes: int
    processes: int
    cores: int
    buyers: int
    database_cores: int = 0
    items: int = 1
    max_batch: int = 256
    network: float = 0.0
    spread: tuple[int, ...] = ()

    @property
    def buyers_at_processes(self) -> tuple[int, ...]:
        """The buyers at each process."""
        processes = self.nodes * self.processes
        evenly = (len(range(number, self.buyers, processes)) for number in range(processes))
        return self.spread or tuple(evenly)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of it: purchases per second, per transaction, and seconds of the median buyer."""

    rate: float
    batch: float
    median: float


ROUND_TRIPS = 4
"""Between machines, per transaction: the lock is handed over, rows are read, written, committed."""

Queue = deque[simpy.Event]
"""Purchases; each event says that one was bought."""


class _Process:
    """A web process.

    Attributes:
        waiting: queues of purchases by item.
        leading: items whose leaders are at work.
        read: when their sales were read.
        joined: batches of items that wait for the transaction of several items, each with the event
            that says that it was sold.
        sells_several: whether such a transaction is at work.
    """

    def __init__(self, env: simpy.Environment, cores: simpy.Resource) -> None:
        self.thread = simpy.Resource(env)
        self.cores = cores
        self.waiting: dict[int, Queue] = defaultdict(deque)
        self.leading: set[int] = set()
        self.read: dict[int, float] = {}
        self.joined: deque[tuple[int, list[simpy.Event], simpy.Event]] = deque()
        self.sells_several = False


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
        self.locks: dict[int, simpy.Resource] = defaultdict(lambda: simpy.Resource(env))
        self.rows: dict[int, simpy.Resource] = defaultdict(lambda: simpy.Resource(env))
        self.times: list[tuple[float, float]] = []
        self.batches: list[tuple[float, int]] = []

    def compute(self, seconds: float, *needed: simpy.Resource) -> Steps:
        """Use all of `needed`, of which the last are a machine's cores, in slices."""
        while seconds > 1e-9:
            requests = []
            for each in needed:
                requests.append(each.request())
                yield requests[-1]
            used = min(SLICE, seconds)
            alone = needed[-1].count == 1
            yield self.env.timeout(used if alone else used * self.costs.pace)
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
            before = costs.web * BEFORE
            if env.now >= process.read.get(item, -FRESH) + FRESH:
                process.read[item] = env.now
                before += costs.web_sale
            yield from self.compute(before, process.thread, process.cores)
            bought = env.event()
            process.waiting[item].append(bought)
            if item not in process.leading:
                process.leading.add(item)
                env.process(self.lead(process, item))
            yield bought
            after = costs.web * (1 - BEFORE - INSIDE)
            yield from self.compute(after, process.thread, process.cores)
            self.times.append((env.now, env.now - started))

    def lead(self, process: _Process, item: int) -> Steps:
        """Sell to an item's queue of a process, batch after batch."""
        waiting = process.waiting[item]
        while waiting:
            if len(waiting) <= FEW and len(process.leading) > 1:
                sold = self.env.event()
                process.joined.append((item, _drain(waiting, FEW), sold))
                if not process.sells_several:
                    self.env.process(self.sell_several(process))
                yield sold
            else:
                yield from self.sell_locked(process, item, waiting)
        process.leading.discard(item)

    def sell_locked(self, process: _Process, item: int, waiting: Queue) -> Steps:
        """Sell a batch of an item under its lock."""
        costs = self.costs
        with self.locks[item].request() as turn:
            yield turn
            yield from self.compute(costs.redis_batch, self.redis)
            # The leader waits for its turn in the process, and takes what has come by then.
            yield from self.compute(costs.web_batch * costs.held, process.thread, process.cores)
            batch = _drain(waiting, self.world.max_batch)
            yield from self.transact(process, batch, [item])

    def sell_several(self, process: _Process) -> Steps:
        """Sell for the leaders of several items that have joined, without the items' locks."""
        costs, joined = self.costs, process.joined
        process.sells_several = True
        while joined:
            yield self.env.timeout(GATHER)
            taken = _drain(joined, MAX_ITEMS)
            yield from self.compute(costs.web_batch * costs.held, process.thread, process.cores)
            batch = [bought for _, tickets, _ in taken for bought in tickets]
            yield from self.transact(process, batch, sorted(item for item, _, _ in taken))
            for _, _, sold in taken:
                sold.succeed()
        process.sells_several = False

    def transact(self, process: _Process, batch: list[simpy.Event], items: list[int]) -> Steps:
        """Write a batch and commit; the last message locks the items' rows."""
        costs, env, size, further = self.costs, self.env, len(batch), len(items) - 1
        inside = costs.web * INSIDE * size
        yield from self.compute(inside, process.thread, process.cores)
        database = costs.database_batch * costs.held + costs.database * size
        trip = costs.wait / ROUND_TRIPS + self.world.network
        yield from self.compute(database * (1 - LAST), self.database)
        yield env.timeout(trip * (ROUND_TRIPS - 1))
        rows = []
        for item in items:  # in order of id: two transactions never wait for each other
            rows.append((self.rows[item], self.rows[item].request()))
            yield rows[-1][1]
        last = database * LAST + costs.database_item * further
        yield from self.compute(last, self.database)
        yield env.timeout(trip)
        for row, turn in rows:
            row.release(turn)
        self.batches.append((env.now, size))
        for bought in batch:
            bought.succeed()
        env.process(self.end(process))

    def end(self, process: _Process) -> Steps:
        """Do what a transaction needs beside the next one, once its buyers are told."""
        yield self.env.timeout(0)
        beside = 1 - self.costs.held
        yield from self.compute(self.costs.database_batch * beside, self.database)
        yield from self.compute(self.costs.web_batch * beside, process.thread, process.cores)


def _drain(queue: deque[Any], most: int) -> list[Any]:
    return [queue.popleft() for _ in range(min(len(queue), most))]


def simulate(costs: Costs, world: World, *, seconds: float = 2.0, seed: int = 1) -> Outcome:
    """Run the model; the first half of the time does not count."""
    run = _Simulation(costs, world, seed)
    for process, buyers in zip(run.processes, world.buyers_at_processes, strict=True):
        for _ in range(buyers):
            run.env.process(run.buyer(process))
    run.env.run(until=seconds)
    half = seconds / 2
    times = sorted(took for at, took in run.times if at > half)
    sizes = [size for at, size in run.batches if at > half]
    if not times or not sizes:
        return Outcome(0.0, 0.0, 0.0)
    return Outcome(len(times) / half, sum(sizes) / len(sizes), times[len(times) // 2])
