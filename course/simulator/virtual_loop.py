"""An asyncio event loop in virtual time: one for each simulated process that uses asyncio."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from greenlet import GreenletExit

from course.simulator.world import World

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
