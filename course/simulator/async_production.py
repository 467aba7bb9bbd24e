"""The production asyncio lock on the simulated server, beside blocking clients."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from course.simulator import production
from course.simulator.connection import SOCKET_TIMEOUT, SimulatedConnection
from course.simulator.redis_server import RedisServer
from course.simulator.simulation import KEY
from course.simulator.virtual_loop import VirtualLoop
from locking.backends._drivers import Driver
from locking.backends.redis_async import AsyncRedisLease, AsyncRedisLock
from locking.backends.redis_transport_async import AsyncNodeTransport
from locking.base import Clock, LockError

DRIVER = Driver("redis", asynchronous=True, cluster=False)


class AsyncSimulatedConnection:
    """One connection of an asyncio client."""

    def __init__(
        self, server: RedisServer, loop: VirtualLoop, cancel: Callable[[], object], **settings: Any
    ) -> None:
        self._loop = loop
        self._inner = SimulatedConnection(server, interrupt=cancel)

    @property
    def is_connected(self) -> bool:
        """Whether this side has not closed it."""
        return not self._inner.broken

    async def connect(self) -> None:
        """Connect, which takes no time and always works."""

    async def disconnect(self, nowait: bool = False) -> None:
        """Close it; its answers are lost."""
        self._inner.disconnect()

    async def send_packed_command(
        self, commands: Sequence[bytes], check_health: bool = True
    ) -> None:
        """Send commands."""
        await self._loop.in_thread(lambda: self._inner.send_packed_command(commands))

    async def read_response(self, disable_decoding: bool = False) -> Any:
        """Wait for the answer and return it."""
        await self._loop.in_thread(lambda: self._inner.can_read(3600.0))
        return self._inner.read_response()


class AsyncClient:
    """A process with one task that acquires the lock as a careful program would.

    Its task can be cancelled before or after any command of the process, also one that renews.
    """

    def __init__(self, client: production.Client, kind: type[AsyncRedisLock]) -> None:
        self._client = client
        self._holder = client.holder
        self._simulation = client.holder.simulation
        self._kind = kind

    def run(self) -> None:
        """Run the process."""
        self._loop = VirtualLoop(self._simulation.world)
        self._loop.run(self._program)

    def _lock(self) -> AsyncRedisLock:
        task = asyncio.current_task()
        assert task is not None

        def cancel() -> None:
            task.cancel()
            self._simulation.monitor.is_leaving(self._holder.name)
            self._loop.wake()

        connect = partial(AsyncSimulatedConnection, self._client.server, self._loop, cancel)
        settings = {"socket_timeout": SOCKET_TIMEOUT}
        world = self._simulation.world
        production.load_scripts(self._client.server, self._kind)
        return self._kind(
            AsyncNodeTransport(None, connect, settings, DRIVER),
            KEY,
            lease=self._client.lease,
            owner=self._holder.name,
            clock=Clock(monotonic=world.seconds, sleep=world.sleep),
        )

    async def _program(self) -> None:
        simulation, name = self._simulation, self._holder.name
        lock = self._lock()
        for _ in range(self._client.rounds):
            faults = self._client.asks()
            try:
                lease = await lock.acquire(self._client.timeout)
            except (LockError, asyncio.CancelledError) as problem:
                self._loop.check_alive()
                simulation.fails(name, problem)
                self._client.gave_up(faults)
            else:
                await self._hold(lease, lock)

    async def _hold(self, lease: AsyncRedisLease, lock: AsyncRedisLock) -> None:
        holder, simulation = self._holder, self._simulation
        attempt = holder.enters(lease)
        try:
            await asyncio.sleep(holder.work)
            if holder.hands_on:
                ident = lease.hand_on()
                holder.follows(attempt, lease := await lock.resume(ident))
            if holder.extension:
                await lease.extend(holder.extension)
                await asyncio.sleep(holder.work)
            if holder.writes:
                lease.check()
                write = partial(simulation.resource.write, holder.name, attempt, lease.token)
                await self._loop.in_thread(write)
        except (LockError, asyncio.CancelledError) as problem:
            self._loop.check_alive()
            simulation.note(holder.name, f"stops: {problem!r}")
        simulation.monitor.leaves(holder.name)
        if lease.released:
            return  # as in `Holder.hold`
        over = None if holder.checks is None else holder.checks.releases(attempt, lease)
        holder.ended(lease, over, await self._release(lease))

    async def _release(self, lease: AsyncRedisLease) -> LockError | None:
        while True:
            try:
                await lease.release()
            except asyncio.CancelledError:
                self._loop.check_alive()
            except LockError as problem:
                return problem
            else:
                return None
