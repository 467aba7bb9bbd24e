"""asyncio in virtual time, for the production asyncio lock beside blocking clients."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from typing import Any, TypeVar

from greenlet import GreenletExit

from course.simulator import production
from course.simulator.redis_client import SimulatedConnection, SimulatedPool
from course.simulator.redis_server import RedisServer
from course.simulator.simulation import KEY
from course.simulator.world import World
from locking.backends.redis_async import AsyncRedisLock
from locking.backends.redis_transport_async import AsyncNodeTransport
from locking.terms import Clock

T = TypeVar("T")


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
        self._inner.disconnect()

    async def send_packed_command(
        self, commands: Sequence[bytes], check_health: bool = True
    ) -> None:
        await self._loop.call(lambda: self._inner.send_packed_command(commands))

    async def read_response(self, disable_decoding: bool = False) -> Any:
        await self._loop.call(lambda: self._inner.can_read(3600.0))
        return self._inner.read_response()


def run_asyncio(client: production.Client, kind: type[AsyncRedisLock]) -> None:
    """Run the client's process with an asyncio lock.

    Its task can be cancelled before or after any command of the process, also one that renews.
    """
    simulation, world = client.simulation, client.simulation.world
    loop = VirtualLoop(world)

    def cancel() -> None:
        loop.cancel()
        simulation.monitor.is_leaving(client.name)

    production.load_scripts(client.server, kind)
    connect = partial(AsyncSimulatedConnection, client.server, loop, cancel)
    # Made here so that it outlives the loop, which cannot close connections when it ends.
    lock = kind(
        AsyncNodeTransport(SimulatedPool(client.server, connect)),
        KEY,
        lease=client.lease,
        owner=client.name,
        clock=Clock(monotonic=world.seconds, sleep=world.sleep),
    )
    loop.run_program(client.program(lock, loop))


class VirtualLoop(asyncio.BaseEventLoop):
    """An event loop whose clock is the world's, and whose only events are those of its commands.

    Commands run in greenlets of their own (`call`), so that the tasks of a process go on while one
    of them waits for its server.
    """

    def __init__(self, world: World) -> None:
        super().__init__()
        self._selector = self
        self._world = world
        self._process = world.me()
        self._thread = world.running
        self._dead = False
        self.set_exception_handler(lambda loop, context: None)  # tasks of dead processes

    def run_program(self, program: Coroutine[Any, Any, None]) -> None:
        """Run a client's program; if its process dies meanwhile, nothing it does has an effect."""
        self._program = self.create_task(program)
        try:
            self.run_until_complete(self._program)
        except GreenletExit:
            self._dead = True
            for each in asyncio.all_tasks(self):
                each.cancel()
                self.run_until_complete(asyncio.wait([each]))
            raise
        finally:
            self.close()

    def cancel(self) -> None:
        """Cancel the program."""
        self._program.cancel()
        self.wake()

    def time(self) -> float:
        return self._world.seconds()

    # -- how a client's program waits

    async def sleep(self, seconds: float) -> None:
        """Wait so long."""
        await asyncio.sleep(seconds)

    async def call(self, command: Callable[[], T]) -> T:
        """Run a command that lets the world choose; return its result."""
        done: asyncio.Future[T] = self.create_future()

        def body() -> None:
            if done.done():
                return
            try:
                answer = command()
            except Exception as problem:  # noqa: BLE001 - it is raised again in the task
                if not done.done():
                    done.set_exception(problem)
            else:
                if not done.done():
                    done.set_result(answer)
            self.wake()

        self.check_alive()
        self._world.spawn(self._process, body, daemon=True)
        return await done

    def check_alive(self) -> None:
        """Raise `CancelledError` in a dead process, which must not go on."""
        if self._dead:
            raise asyncio.CancelledError

    def wake(self) -> None:
        """Let the loop look at what has become ready."""
        if self._thread is not None and not self._dead:
            self._world.wake(self._thread)

    # -- what the base class needs

    _write_to_self = wake

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
