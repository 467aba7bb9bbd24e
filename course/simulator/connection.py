"""The connections of the production transports and of redis-py's client to the simulated server.

Only redis-py's connection is replaced, so the transports' own handling of time-outs, late answers
and dead connections runs in the simulation too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import hiredis
from redis.exceptions import ConnectionError, ResponseError  # noqa: A004

from course.simulator.history import MICROSECONDS, Kind
from course.simulator.process import Thread
from course.simulator.redis_server import RedisServer
from course.simulator.schedule import Act
from course.simulator.world import COMMAND_TIME, DELAY, HORIZON, REPLY_TIMEOUT

SOCKET_TIMEOUT = REPLY_TIMEOUT / MICROSECONDS

FOREVER = 2 * HORIZON / MICROSECONDS

# A lost answer comes after all, but so late that its client no longer waits for it.
LATE = REPLY_TIMEOUT + DELAY


class Interrupted(KeyboardInterrupt):
    """A signal has interrupted the client, as Ctrl-C does."""


class SimulatedConnection:
    """One connection of a client, with the part of redis-py's interface that transports use."""

    def __init__(
        self,
        server: RedisServer,
        *,
        interrupt: Callable[[], object] | None = None,
        **settings: Any,
    ) -> None:
        """Make it; `interrupt` is called for an interrupt instead of raising `Interrupted`."""
        self.process = server.world.me()
        self.keys: list[bytes] = []
        self._server = server
        self._world = server.world
        self._interrupt = interrupt
        self._generation = server.generation
        self._closed = False
        self._lost = False
        self._inbox: list[tuple[int, Any]] = []
        self._delay = 0  # of the present answer
        self._popping: tuple[Any, ...] = ()
        self._pops_until = 0
        self._reading: Thread | None = None

    def connect(self) -> None:
        """Connect, which takes no time and always works."""

    def disconnect(self) -> None:
        """Close it; its answers are lost."""
        self._closed = True
        self._inbox = []
        self._stop_popping()
        self._rouse()

    @property
    def broken(self) -> bool:
        """Whether either side has closed it."""
        return self._closed or self._generation != self._server.generation

    def send_packed_command(self, commands: Sequence[bytes], check_health: bool = True) -> None:
        """Send commands; the server executes each at once, unless a fault hits it."""
        for packed in commands:
            words = _unpack(packed)
            self.send(words, _shown(self._server, words))

    def send(self, words: list[bytes], shown: tuple[Any, ...]) -> None:
        """Send a command; the timeline shows it as `shown`."""
        world, server = self._world, self._server
        effect = world.step(shown)
        if effect is Act.INTERRUPT:
            self._interrupted(shown, "before it sends")
            if self._interrupt is not None:
                world.sleep(COMMAND_TIME / MICROSECONDS)  # for the task that is cancelled
        if self.broken:
            raise ConnectionError("Connection closed by server.")
        if effect is Act.DELAY_REQUEST:
            world.record(Kind.FAULT, "its next request is delayed", who=self.process.name)
            world.sleep(DELAY / MICROSECONDS)
        if effect is Act.LOSE_REQUEST or self.process.name in server.cut_off or self._lost:
            self._lost = True  # a stream delivers nothing after what it has lost
            what = (*(str(word) for word in shown), "never arrives")
            world.record(Kind.FAULT, what, who=self.process.name, server=server.name)
            return
        try:
            reply = server.execute(self.process, words, shown, effect)
        except ResponseError as problem:
            reply = problem
            server.record(self.process, shown, reply)
        self._delay = {Act.LOSE_REPLY: LATE, Act.DELAY_REPLY: DELAY}.get(effect or Act.SWITCH, 0)
        if words[0] == b"BLPOP" and reply is None:
            self._start_popping(words, shown)
        else:
            self._inbox.append((world.now + self._delay, reply))
        self._rouse()
        self._after(effect, shown)

    def _after(self, effect: Act | None, shown: tuple[Any, ...]) -> None:
        world, name = self._world, self.process.name
        if effect is Act.DELAY_REPLY:
            world.record(Kind.FAULT, "gets this answer late", who=name)
        elif effect is Act.STALL:
            world.record(Kind.FAULT, "is paused before it sees the answer", who=name)
            world.stall()
        elif effect is Act.INTERRUPT_LATE:
            self._interrupted(shown, "before it reads the answer of")

    def _interrupted(self, shown: tuple[Any, ...], when: str) -> None:
        """Interrupt the client; only its main thread gets signals."""
        assert self._world.running is not None
        what = f"is interrupted {when} {shown[0]}"
        if self._interrupt is not None:
            self._world.record(Kind.FAULT, what, who=self.process.name)
            self._interrupt()
        elif not self._world.running.daemon:
            self._world.record(Kind.FAULT, what, who=self.process.name)
            self.disconnect()
            raise Interrupted

    # -- answers

    def can_read(self, timeout: float = 0.0) -> bool:
        """Wait at most `timeout` seconds for an answer, or for the end of the connection."""
        world = self._world
        until = world.now + round(timeout * MICROSECONDS)
        while not self._is_readable():
            if world.now >= until:
                return False
            due = min([until, *(at for at, _ in self._inbox[:1])])  # answers come in order
            self._reading = world.running
            try:
                world.wait((due - world.now) / MICROSECONDS)
            finally:
                self._reading = None
        return True

    def _is_readable(self) -> bool:
        return self.broken or bool(self._inbox and self._inbox[0][0] <= self._world.now)

    def read_response(self, disable_decoding: bool = False) -> Any:
        """Return the answer that has arrived."""
        if not self._inbox:
            raise ConnectionError("Connection closed by server.")
        _, reply = self._inbox.pop(0)
        if self._popping:
            self._server.record(self.process, self._popping, reply)
            self._stop_popping()
        if isinstance(reply, ResponseError):
            raise reply
        return reply

    # -- a blocking pop, for the server

    @property
    def gone(self) -> bool:
        """Whether the server has given up waiting, or seen the connection end."""
        return self.process.crashed or self._world.now >= self._pops_until

    def serve(self, reply: list[bytes] | None) -> None:
        """Receive the popped element; None if the connection breaks."""
        self._inbox = [(self._world.now + self._delay, reply)] if reply else []
        self._rouse()

    def _rouse(self) -> None:
        """Let a reader that is waiting look at what has come."""
        if self._reading is not None:
            self._world.wake(self._reading)

    def _start_popping(self, words: list[bytes], shown: tuple[Any, ...]) -> None:
        self.keys, self._popping = words[1:-1], shown
        self._server.blocked.append(self)
        self._world.record(
            Kind.NOTE, (*shown, "…"), who=self.process.name, server=self._server.name
        )
        self._pops_until = self._world.now + round((float(words[-1]) or FOREVER) * MICROSECONDS)
        self._inbox.append((self._pops_until + self._delay, None))

    def _stop_popping(self) -> None:
        self._popping = ()
        if self in self._server.blocked:
            self._server.blocked.remove(self)


def _unpack(packed: bytes) -> list[bytes]:
    reader = hiredis.Reader()
    reader.feed(packed)
    words: list[bytes] = reader.gets()
    return words


def _shown(server: RedisServer, words: list[bytes]) -> tuple[Any, ...]:
    if words[0] == b"EVALSHA":
        keys = int(words[2])
        name = server.script_names.get(words[1], "script")
        return (name, *(word.decode() for word in words[3 + keys :]))
    return tuple(word.decode() for word in words)
