"""The production asyncio lock on the simulated server, beside blocking clients."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from typing import Any, TypeVar

from greenlet import GreenletExit

from course.simulator import production
from course.simulator.connection import SOCKET_TIMEOUT, SimulatedConnection
from course.simulator.redis_server import RedisServer
from course.simulator.simulation import KEY
from course.simulator.world import World
from locking.backends._drivers import Driver
from locking.backends.redis_async import AsyncRedisLease, AsyncRedisLock
from locking.backends.redis_transport_async import AsyncNodeTransport
from locking.terms import Clock, LockError

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


T = TypeVar("T")


class VirtualLoop(asyncio.BaseEventLoop):
    """An event loop whose clock is the world's, and whose only events are those of its commands.

    Commands run in greenlets of their own (`in_thread`), so that the tasks of a process go on while
    one of them waits for its server.
    """

    def __init__(self, world: World) -> None:
        super().__init__()
        self._selector = self
        self._world = world
        self._process = world.me()
        self._thread = world.running
        self._dead = False
        self.set_exception_handler(lambda loop, context: None)  # tasks of dead processes

    def run(self, main: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Run a client's program; if its process dies meanwhile, nothing it does has an effect."""
        task = self.create_task(main())
        try:
            self.run_until_complete(task)
        except GreenletExit:
            self._dead = True
            for each in asyncio.all_tasks(self):
                each.cancel()
                self.run_until_complete(asyncio.wait([each]))
            raise
        finally:
            self.close()

    def time(self) -> float:
        """Return the world's clock."""
        return self._world.seconds()

    async def in_thread(self, command: Callable[[], T]) -> T:
        """Run a command that lets the world choose; return its result."""
        done: asyncio.Future[T] = self.create_future()

        def body() -> None:
            if done.done():
                return
            try:
                result = command()
            except Exception as problem:  # noqa: BLE001 - it is raised again in the task
                _set(done, None, problem)
            else:
                _set(done, result, None)
            self._write_to_self()

        self.check_alive()
        self._world.spawn(self._process, body, daemon=True)
        return await done

    def check_alive(self) -> None:
        """Raise `CancelledError` in a dead process, which must not go on."""
        if self._dead:
            raise asyncio.CancelledError

    def wake(self) -> None:
        """Let the loop look at what has become ready."""
        self._write_to_self()

    # -- what the base class needs

    def select(self, timeout: float | None) -> list[Any]:
        """Wait until a command is done or a timer is due; other processes run meanwhile."""
        if timeout == 0 or self._dead:
            return []
        asyncio._set_running_loop(None)
        try:
            self._world.wait(timeout)
        finally:
            asyncio._set_running_loop(self)
        return []

    def _process_events(self, event_list: list[Any]) -> None:
        pass

    def _write_to_self(self) -> None:
        if self._thread is not None and not self._dead:
            self._world.wake(self._thread)


def _set(future: asyncio.Future[T], result: Any, problem: Exception | None) -> None:
    if future.done():
        return
    if problem is None:
        future.set_result(result)
    else:
        future.set_exception(problem)
