"""A redis-py client of the simulated Redis server.

It *is* redis-py's client: its methods build the commands and parse the answers.  Only the network
below `execute_command` is replaced.
"""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

import redis
from redis._parsers import Encoder
from redis.exceptions import TimeoutError as RedisTimeout

from course.simulator.connection import FOREVER, SOCKET_TIMEOUT, SimulatedConnection
from course.simulator.history import Kind
from course.simulator.process import Thread
from course.simulator.redis_server import RedisServer

# redis-py's conversions of raw answers to Python values, from a client that never connects.
CALLBACKS: dict[str, Callable[..., Any]] = dict(redis.Redis(protocol=2).response_callbacks)

SCRIPT_NAMES: dict[str, str] = {}
"""Names of scripts in timelines, by source."""


def name_scripts(module: ModuleType) -> None:
    """Let timelines show the module's scripts by the names of their constants."""
    for name, value in vars(module).items():
        if isinstance(value, str) and "redis.call" in value:
            SCRIPT_NAMES[value] = f"script {name}"


class _Pool:
    """The only part of a connection pool that redis-py's `Script` needs."""

    def __init__(self, encoder: Encoder) -> None:
        self._encoder = encoder

    def get_encoder(self) -> Encoder:
        return self._encoder


class SimulatedRedis(redis.Redis):
    """redis-py with a simulated server instead of the network; never retries."""

    def __init__(self, server: RedisServer) -> None:
        # Not redis-py's __init__: it creates sockets and takes longer than a whole run.
        self.server = server
        self.encoder = Encoder("utf-8", "strict", False)  # type: ignore[no-untyped-call]
        self.connection_pool: Any = _Pool(self.encoder)
        self.connection = None
        self._idle: list[SimulatedConnection] = []

    def __del__(self) -> None:
        """Do nothing: there is nothing to close."""

    def close(self) -> None:
        """Do nothing: there is nothing to close."""

    def get_encoder(self) -> Encoder:
        """Return the encoder of arguments."""
        return self.encoder

    def execute_command(self, *args: Any, **options: Any) -> Any:
        """Send a command and wait for its answer; the world may run other clients meanwhile."""
        words = [encode(word) for word in _split(args)]
        shown = args
        if words[0] == b"EVALSHA":
            shown = (self.server.script_names.get(words[1], "script"), *args[3:])
        # A thread of the process may be waiting on another connection.
        connection = self._idle.pop() if self._idle else SimulatedConnection(self.server)
        connection.send(words, shown)
        blocks = (float(words[-1]) or FOREVER) if words[0] == b"BLPOP" else 0.0
        if not connection.can_read(blocks + SOCKET_TIMEOUT):
            connection.disconnect()
            raise RedisTimeout("Timeout reading from socket")
        self._idle.append(connection)
        reply = connection.read_response()
        callback: Callable[..., Any] | None = CALLBACKS.get(args[0])
        options.pop("keys", None)
        return reply if callback is None else callback(reply, **options)

    def register_script(self, script: Any) -> Any:
        """Return a script that is already loaded on the server."""
        digest = self.server.model.execute([b"SCRIPT", b"LOAD", encode(script)])
        self.server.script_names[digest] = SCRIPT_NAMES.get(script, "script")
        return super().register_script(script)

    def pubsub(self, **kwargs: Any) -> Any:
        """Return a subscriber to this server's messages."""
        return SimulatedPubSub(self.server, **kwargs)


class SimulatedPubSub:
    """Has the interface of redis-py's `PubSub`."""

    def __init__(self, server: RedisServer, *, ignore_subscribe_messages: bool = False) -> None:
        self._server = server
        self._ignore = ignore_subscribe_messages
        self._channels: set[bytes] = set()
        self._inbox: list[dict[str, Any]] = []
        self._reader: Thread | None = None
        self._process = server.world.me()

    def subscribe(self, *channels: str) -> None:
        """Receive messages published to the channels from now on."""
        world = self._server.world
        world.step(("SUBSCRIBE", *channels))
        world.record(
            Kind.COMMAND, ("SUBSCRIBE", *channels), who=self._process.name,
            server=self._server.name,
        )  # fmt: skip
        self._channels |= {encode(channel) for channel in channels}
        self._server.subscribe(self)
        if not self._ignore:
            self._inbox += [
                {"type": "subscribe", "pattern": None, "channel": encode(name), "data": 1}
                for name in channels
            ]

    def receive(self, channel: bytes, message: bytes) -> None:
        """Receive a message from the server."""
        if channel not in self._channels or self._process.crashed:
            return
        self._inbox.append(
            {"type": "message", "pattern": None, "channel": channel, "data": message}
        )
        if self._reader is not None:
            self._server.world.wake(self._reader)

    def get_message(
        self, ignore_subscribe_messages: bool = False, timeout: float | None = 0.0
    ) -> dict[str, Any] | None:
        """Return the next message, waiting at most `timeout` seconds for it."""
        world = self._server.world
        if not self._inbox and timeout != 0.0:
            self._reader = world.running
            try:
                world.wait(timeout)
            finally:
                self._reader = None
        if not self._inbox:
            return None
        message = self._inbox.pop(0)
        world.record(Kind.NOTE, "hears the message", message["data"], who=self._process.name)
        return message

    def unsubscribe(self, *channels: str) -> None:
        """Receive no further messages."""
        self._server.unsubscribe(self)
        self._channels.clear()

    def close(self) -> None:
        """Receive no further messages."""
        self.unsubscribe()

    def __enter__(self) -> SimulatedPubSub:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def encode(value: Any) -> bytes:
    """Return an argument as redis-py would send it."""
    if type(value) is bytes:
        return value
    if type(value) is str:
        return value.encode()
    if type(value) is float:
        return repr(value).encode()
    if type(value) is int:
        return b"%d" % value
    if isinstance(value, memoryview | bytearray):
        return bytes(value)
    return str(value).encode()


def _split(args: tuple[Any, ...]) -> tuple[Any, ...]:
    """Split `SCRIPT LOAD`, which redis-py passes as one word."""
    if type(args[0]) is str and " " in args[0]:
        return (*args[0].split(), *args[1:])
    return args
