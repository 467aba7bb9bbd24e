"""redis-py's client, on simulated connections to the simulated server.

Only redis-py's connection and its pool are replaced, so the handling of time-outs, late answers and
dead connections, in redis-py as in the locks, runs in the simulation too.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any

import redis
from redis._parsers import Encoder
from redis.backoff import NoBackoff
from redis.exceptions import ConnectionError, ResponseError  # noqa: A004
from redis.exceptions import TimeoutError as RedisTimeout
from redis.retry import Retry

from course.simulator.history import MICROSECONDS, Kind, Text, _
from course.simulator.process import Thread
from course.simulator.redis_server import SCRIPT_NAMES, RedisServer
from course.simulator.schedule import Act
from course.simulator.world import DELAY, HORIZON, REPLY_TIMEOUT

SOCKET_TIMEOUT = REPLY_TIMEOUT / MICROSECONDS

FOREVER = 2 * HORIZON / MICROSECONDS

# A lost answer comes after all, but so late that its client no longer waits for it.
LATE = REPLY_TIMEOUT + DELAY

ENCODER = Encoder("utf-8", "strict", False)  # type: ignore[no-untyped-call]


def name_scripts(module: ModuleType) -> None:
    """Let timelines show the module's scripts by the names of their constants."""
    for name, value in vars(module).items():
        if isinstance(value, str) and "redis.call" in value:
            SCRIPT_NAMES[value] = f"script {name}"


class SimulatedRedis(redis.Redis):
    """redis-py with a simulated server instead of the network; never retries."""

    def __init__(self, server: RedisServer) -> None:
        super().__init__(connection_pool=SimulatedPool(server))  # type: ignore[arg-type]
        self.server = server

    def register_script(self, script: Any) -> Any:
        """Return a script that is already loaded on the server."""
        self.server.load(script)
        return super().register_script(script)


class SimulatedPool:
    """The part of redis-py's connection pool that its client and the locks need."""

    max_connections = 100

    def __init__(self, server: RedisServer) -> None:
        self.connection_kwargs = {"socket_timeout": SOCKET_TIMEOUT, "protocol": 2}
        self._server = server
        self._idle: list[SimulatedConnection] = []

    def get_encoder(self) -> Encoder:
        return ENCODER

    def get_connection(self) -> SimulatedConnection:
        """Return a connection: another thread of the process may be waiting on each of the rest."""
        while self._idle:
            connection = self._idle.pop()
            if not connection.can_read():  # else the server has closed it
                return connection
            connection.disconnect()
        return SimulatedConnection(self._server)

    def release(self, connection: SimulatedConnection) -> None:
        """Keep the connection for the next command, unless its client has closed it."""
        if not connection.closed:
            self._idle.append(connection)

    def disconnect(self, inuse_connections: bool = True) -> None:
        """Close the connections that are not in use."""
        while self._idle:
            self._idle.pop().disconnect()


class Interrupted(KeyboardInterrupt):
    """A signal has interrupted the client, as Ctrl-C does."""


class SimulatedConnection:
    """One connection of a client, with the part of redis-py's interface that clients use."""

    retry = Retry(NoBackoff(), 0)
    health_check_interval = db = 0
    credential_provider = None
    socket_timeout = SOCKET_TIMEOUT

    def __init__(self, server: RedisServer) -> None:
        self.process = server.world.me()
        self.keys: list[bytes] = []  # of a blocking pop
        self.channels: set[bytes] = set()
        self.closed = False
        self._server = server
        self._world = server.world
        self._generation = server.generation
        self._lost = False
        self._inbox: list[tuple[int, Any]] = []
        self._delay = 0  # of the present answer
        self._popping: tuple[Any, ...] = ()
        self._pops_until = 0
        self._reading: Thread | None = None

    def connect(self) -> None:
        """Connect, which takes no time and always works."""

    def register_connect_callback(self, callback: Any) -> None:
        """Do nothing: a connection that has broken is not connected again."""

    deregister_connect_callback = register_connect_callback

    def should_reconnect(self) -> bool:
        """Return whether redis-py asks for a new connection after its present command."""
        return False

    def disconnect(self) -> None:
        self.closed = True
        self._inbox = []
        self._server.unsubscribe(self)
        self._stop_popping()
        self._rouse()

    @property
    def broken(self) -> bool:
        """Whether either side has closed it."""
        return self.closed or self._generation != self._server.generation

    def send_command(self, *args: Any, **options: Any) -> None:
        """Send a command of redis-py's client, which gives `SCRIPT LOAD` as one word."""
        args = (*args[0].split(), *args[1:])
        words = [ENCODER.encode(word) for word in args]  # type: ignore[no-untyped-call]
        if words[0] == b"EVALSHA":
            name = self._server.scripts[words[1]]
            # Of the production lock's scripts, a reader of timelines knows the key.
            keys = int(args[2]) if name.endswith(".lua") else 0
            args = (name, *args[3 + keys :])
        self._send(words, args)

    def _send(self, words: list[bytes], shown: tuple[Any, ...]) -> None:
        """Send a command; the timeline shows it as `shown`."""
        world, server = self._world, self._server
        effect = world.step(shown)
        if effect is Act.INTERRUPT:
            self._interrupted(shown, "before it sends")
        if self.broken:
            raise ConnectionError("Connection closed by server.")
        if effect is Act.DELAY_REQUEST:
            world.record(Kind.FAULT, "its next request is delayed", who=self.process.name)
            world.sleep(DELAY / MICROSECONDS)
        if effect is Act.LOSE_REQUEST or self.process.name in server.cut_off or self._lost:
            self._lost = True  # a stream delivers nothing after what it has lost
            what = (*shown, Text(_("never arrives")))
            world.record(Kind.FAULT, what, who=self.process.name, server=server.name)
            return
        reply = server.execute(self, words, shown, effect)
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
        if not self._world.running.daemon:
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

    def read_response(
        self,
        disable_decoding: bool = False,
        timeout: float | None = SOCKET_TIMEOUT,
        **options: Any,
    ) -> Any:
        """Return the next answer or message; wait at most `timeout` seconds, None: forever."""
        pops = max(0, self._pops_until - self._world.now) / MICROSECONDS if self._popping else 0.0
        if not self.can_read(FOREVER if timeout is None else timeout + pops):
            self.disconnect()
            raise RedisTimeout("Timeout reading from socket")
        if not self._inbox:
            raise ConnectionError("Connection closed by server.")
        reply = self._inbox.pop(0)[1]
        if self._popping:
            self._server.record(self.process, self._popping, reply)
            self._stop_popping()
        if isinstance(reply, ResponseError):
            raise reply
        if self.channels and reply[0] == b"message":
            self._world.record(
                Kind.NOTE, Text(_("hears the message")), reply[2], who=self.process.name
            )
        return reply

    def _rouse(self) -> None:
        """Let a reader that is waiting look at what has come."""
        if self._reading is not None:
            self._world.wake(self._reading)

    # -- messages, from the server

    def hear(self, channel: bytes, message: bytes) -> None:
        """Receive a message that was published to the channel."""
        if channel in self.channels and not self.process.crashed:
            self._inbox.append((self._world.now, [b"message", channel, message]))
            self._rouse()

    # -- a blocking pop, for the server

    @property
    def gone(self) -> bool:
        """Whether the server has given up waiting, or seen the connection end."""
        return self.process.crashed or self._world.now >= self._pops_until

    def serve(self, reply: list[bytes] | None) -> None:
        """Receive the popped element; None if the connection breaks."""
        self._inbox = [(self._world.now + self._delay, reply)] if reply else []
        self._rouse()

    def _start_popping(self, words: list[bytes], shown: tuple[Any, ...]) -> None:
        self.keys, self._popping = words[1:-1], shown
        self._server.blocked.append(self)
        self._server.record(self.process, (*shown, "…"), kind=Kind.NOTE)
        self._pops_until = self._world.now + round((float(words[-1]) or FOREVER) * MICROSECONDS)
        self._inbox.append((self._pops_until + self._delay, None))

    def _stop_popping(self) -> None:
        self._popping = ()
        if self in self._server.blocked:
            self._server.blocked.remove(self)
