"""Connections that the tasks of an event loop share: one for commands, one for waiting.

Thousands of waiting tasks so cost two connections, and one that gives up closes none.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from typing import Any

from redis import exceptions

from locking.backends.redis_protocol import BELL
from locking.backends.redis_transport import encode_command

LISTEN = 1.0
"""Seconds for which a mailbox blocks before it looks which waiters are left."""


class Line:
    """A connection on which many commands are under way; their answers come in order."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection
        self._awaited: deque[asyncio.Future[Any]] = deque()
        self._sending = asyncio.Lock()
        self._retired = False
        self._reader = asyncio.create_task(self._read())
        # It reads as long as the loop runs, also if the loop ends without cancelling its tasks.
        self._reader._log_destroy_pending = False  # type: ignore[attr-defined]

    @property
    def is_open(self) -> bool:
        """Whether it takes further commands."""
        return not self._retired and bool(self._connection.is_connected)

    async def ask(self, words: tuple[str, ...], limit: float) -> Any:
        """Send a command; return its answer.

        Raises redis-py's `TimeoutError` if that takes longer than `limit` seconds.
        """
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        try:
            async with self._sending:
                if not self.is_open:
                    raise exceptions.ConnectionError("the connection was closed")
                self._awaited.append(answer)
                try:
                    command = [encode_command(words)]
                    await self._connection.send_packed_command(command, check_health=False)
                except BaseException:
                    # What was not sent yet must not be sent after what the caller does next.
                    self._retired = True
                    await self._connection.disconnect(nowait=True)
                    raise
            async with asyncio.timeout(limit):
                return await answer
        except TimeoutError as error:
            self.retire()  # the others wait for their own time
            raise exceptions.TimeoutError(f"no answer within {limit:.3f} s") from error
        finally:
            with contextlib.suppress(RuntimeError):  # the loop may be closed
                if not answer.cancel() and not answer.cancelled():
                    answer.exception()  # otherwise asyncio logs that nobody looked at it

    async def _read(self) -> None:
        problem: Exception | None = None
        try:
            while True:
                try:
                    answer = await self._connection.read_response(disable_decoding=True)
                except exceptions.ResponseError as error:
                    answer = error
                awaited = self._awaited.popleft() if self._awaited else None
                if awaited is None or awaited.done():
                    pass
                elif isinstance(answer, Exception):
                    awaited.set_exception(answer)
                else:
                    awaited.set_result(answer)
                answer = awaited = None
                if not self.is_open and not self._awaited:
                    return
        except Exception as error:  # noqa: BLE001 - it is raised in those who wait
            problem = error
        finally:
            self._retired = True
            reason = f"{problem}" if problem is not None else "the connection was closed"
            with contextlib.suppress(OSError, RuntimeError):  # the loop may be closed
                for each in self._awaited:
                    if not each.done():
                        each.set_exception(exceptions.ConnectionError(reason))
                self._awaited.clear()
                await self._connection.disconnect(nowait=True)

    def retire(self) -> None:
        """Take no further command; close when the last answer has come."""
        self._retired = True
        if all(each.done() for each in self._awaited):
            self._reader.cancel()

    async def close(self) -> None:
        """Close it; whoever waits for an answer gets a `ConnectionError`."""
        self._retired = True
        self._reader.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._reader


class _Box:
    __slots__ = ("arrived", "messages", "problem")

    def __init__(self) -> None:
        self.arrived = asyncio.Event()
        self.messages: list[bytes] = []
        self.problem: Exception | None = None


class Mailbox:
    """The messages of all waiters of a loop, whose lists one connection pops together.

    Rung for a new waiter, it stops popping and starts anew: the bell is a list among the others.

    `transport` has its connection, for that `use`, and pushes to its bell.
    """

    def __init__(self, transport: Any, use: str) -> None:
        self._transport = transport
        self._use = use
        self._boxes: dict[str, _Box] = {}
        self._bell = ""
        self._popping: frozenset[str] = frozenset()
        self._listener: asyncio.Task[None] | None = None
        self._ringing: asyncio.Task[Any] | None = None

    async def pop(self, key: str, seconds: float, limit: float) -> bytes | None:
        """Wait for the list's next message, for at most `seconds`; None if there is none.

        Until `forget`, a message that comes later waits in the box.  The mailbox gives up a server
        that is silent for `limit` seconds.
        """
        box = self._boxes.get(key)
        if box is None:
            box = self._boxes[key] = _Box()
            self._bell = self._bell or f"{key}-bell"
        if self._listener is None or self._listener.done():
            self._listener = asyncio.create_task(self._listen(limit))
            self._listener._log_destroy_pending = False  # type: ignore[attr-defined]
        elif self._popping and key not in self._popping:
            self._rouse()
        if not box.messages:
            box.arrived.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await box.arrived.wait()
        problem, box.problem = box.problem, None
        if problem is not None:
            raise problem
        return box.messages.pop(0) if box.messages else None

    def forget(self, key: str) -> None:
        """Keep no more messages of the list."""
        self._boxes.pop(key, None)

    def _rouse(self) -> None:
        if self._ringing is None or self._ringing.done():
            self._ringing = asyncio.create_task(self._ring_until_all_are_popped())

    async def _ring_until_all_are_popped(self) -> None:
        # If the bell is lost, new waiters are listened for after `LISTEN` seconds.
        with contextlib.suppress(Exception):
            while self._popping and not self._boxes.keys() <= self._popping:
                ring = ("EVAL", BELL.source, "1", self._bell)
                await self._transport.run(ring, None, BELL.name)

    async def _listen(self, limit: float) -> None:
        try:
            while self._boxes:
                line = await self._transport.line(self._use, None)
                keys = [self._bell, *self._boxes]
                self._popping = frozenset(keys)
                command = ("BLPOP", *keys, f"{LISTEN:.3f}")
                reply = await line.ask(command, LISTEN + limit)
                self._popping = frozenset()
                box = self._boxes.get(reply[0].decode()) if reply else None
                if box is not None:
                    box.messages.append(reply[1])
                    box.arrived.set()
                    await asyncio.sleep(0)  # it most likely leaves
        except Exception as error:  # noqa: BLE001 - it is raised in the waiters
            for box in self._boxes.values():
                box.problem = type(error)(*error.args)
                box.arrived.set()
        finally:
            self._popping = frozenset()
