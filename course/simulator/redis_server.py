"""The simulated Redis server: its data, blocked readers, subscribers and faults."""

from __future__ import annotations

from collections.abc import Callable
from math import inf
from typing import TYPE_CHECKING, Any, NoReturn, Protocol

from redis.exceptions import ResponseError
from redis.exceptions import TimeoutError as RedisTimeout

from course.simulator.history import MICROSECONDS, Kind
from course.simulator.process import Process, Thread
from course.simulator.redis_model import RedisModel
from course.simulator.schedule import Act
from course.simulator.world import EPOCH, REPLY_TIMEOUT, World

if TYPE_CHECKING:
    from course.simulator.monitor import Monitor


class Subscriber(Protocol):
    """A client that receives published messages."""

    def receive(self, channel: bytes, message: bytes) -> None:
        """Receive one message."""


class Reader(Protocol):
    """A client that waits for an element of a list."""

    keys: list[bytes]

    @property
    def gone(self) -> bool:
        """Whether it no longer waits; its connection closed when its process died."""

    def serve(self, reply: list[bytes] | None) -> None:
        """Receive the element, with its key; None if the connection breaks."""


class RedisServer:
    """A server of the world: the model of its data, its blocked clients and its subscribers.

    `lock_key` is the key that eviction hits and the monitor watches.  With `replicated`, the
    state before the last write is kept, for a failover that misses it.
    """

    def __init__(
        self,
        world: World,
        *,
        name: str = "redis",
        lock_key: str = "",
        replicated: bool = False,
    ) -> None:
        self.world = world
        self.name = name
        self.lock_key = lock_key.encode()
        self.skew = 0
        self.model = RedisModel(lambda: EPOCH + world.now + self.skew)
        self.monitor: Monitor | None = None
        self.script_names: dict[bytes, str] = {}
        self.cut_off: set[str] = set()  # clients that cannot reach this server
        self.blocked: list[Reader] = []
        self.generation = 0  # of its connections: those of an earlier one are broken
        self._subscribers: list[Subscriber] = []
        self._replicated = replicated
        self._replica = self.model.snapshot() if replicated else None
        world.servers[name] = self

    def command(self, args: tuple[Any, ...]) -> Any:
        """Send one command from the running thread and wait for its answer."""
        words = [encode(word) for word in _split(args)]
        blocking = words[1:] if words[0] == b"BLPOP" else None
        shown = args
        if words[0] == b"EVALSHA":
            shown = (self.script_names.get(words[1], "script"), *args[3:])
        return self._ask(shown, lambda: self.model.execute(words), blocking)

    def load(self, name: str, source: str) -> None:
        """Make a script known; the timeline shows its name."""
        self.script_names[self.model.execute([b"SCRIPT", b"LOAD", encode(source)])] = name

    def _ask(
        self, shown: tuple[Any, ...], run: Callable[[], Any], blocking: list[bytes] | None = None
    ) -> Any:
        """Send a command to the server and return its answer, with any faults on the way."""
        world = self.world
        effect = world.step(shown)
        process = world.me()
        if effect is Act.LOSE_REQUEST or process.name in self.cut_off:
            what = (*_words(shown), "never arrives")
            world.record(Kind.FAULT, what, who=process.name, server=self.name)
            self._time_out()
        try:
            reply = self.run(process, shown, run, effect)
        except ResponseError as problem:
            world.record(Kind.COMMAND, shown, problem, who=process.name, server=self.name)
            raise
        if blocking is not None and reply is None:
            reply = self._block(shown, blocking, effect)
        if effect is Act.LOSE_REPLY:
            self._time_out()
        if effect is Act.STALL:
            world.record(Kind.FAULT, "is paused before it sees the answer", who=process.name)
            world.stall()
        return reply

    def run(
        self,
        process: Process,
        shown: tuple[Any, ...],
        run: Callable[[], Any],
        effect: Act | None,
    ) -> Any:
        """Execute a command that has arrived, and return its reply."""
        model = self.model
        if self.monitor is not None:
            self.monitor.sees(self, shown[0])
        before = model.snapshot() if self._replicated else None
        touched = model.data.touched
        reply = run()
        changed = model.data.touched != touched
        if before is not None and changed:
            self._replica = before
        if reply is not None or shown[0] != "BLPOP":
            self.record(process, shown, reply, effect)
        if self.monitor is not None:
            self.monitor.saw_command(self, process, changed=changed)
        if self.blocked and changed:
            self._serve_blocked()
        if model.published:
            self._deliver(process, lost=effect is Act.LOSE_MESSAGE)
        return reply

    def record(
        self, process: Process, shown: tuple[Any, ...], reply: Any, effect: Act | None = None
    ) -> None:
        """Show a command with its reply in the timeline."""
        kind = Kind.LOST if effect is Act.LOSE_REPLY else Kind.COMMAND
        self.world.record(kind, shown, reply, who=process.name, server=self.name)

    def _time_out(self) -> NoReturn:
        self.world.sleep(REPLY_TIMEOUT / MICROSECONDS)
        raise RedisTimeout("Timeout reading from socket")

    def holders(self) -> dict[bytes, float]:
        """Return, for each "token:owner" whose lease has not ended, the seconds until it does."""
        value, now = self.model.find(self.lock_key), self.model.clock() // 1000
        end = self.model.end(self.lock_key)
        ends = inf if end is None else (end - now) / 1000
        if isinstance(value, dict):
            lefts = {holder: (end - now) / 1000 for holder, end in value.items()}
            return {holder: min(left, ends) for holder, left in lefts.items() if left > 0}
        return {value.partition(b":")[2]: ends} if isinstance(value, bytes) else {}

    # -- blocking reads: served in the order in which they came, as by the real server

    def _block(
        self, shown: tuple[Any, ...], words: list[bytes], effect: Act | None
    ) -> list[bytes] | None:
        world = self.world
        assert world.running is not None
        reader = _BlockedReader(world, world.running, words[:-1])
        self.blocked.append(reader)
        world.record(Kind.NOTE, (*shown, "…"), who=world.me().name, server=self.name)
        try:
            world.wait(float(words[-1]) or None)
        finally:
            if reader in self.blocked:
                self.blocked.remove(reader)
        self.record(world.me(), shown, reader.reply, effect)
        return reader.reply

    def _serve_blocked(self) -> None:
        for key in sorted(self.model.data.changed):
            for reader in [one for one in self.blocked if key in one.keys]:
                if reader.gone:
                    continue
                reply = self.model.execute([b"BLPOP", key, b"0"])
                if reply is None:
                    break
                self.blocked.remove(reader)
                reader.serve(reply)
        self.model.data.changed.clear()

    # -- messages

    def subscribe(self, reader: Subscriber) -> None:
        """Deliver messages published from now on."""
        if reader not in self._subscribers:
            self._subscribers.append(reader)

    def unsubscribe(self, reader: Subscriber) -> None:
        """Deliver no further messages."""
        if reader in self._subscribers:
            self._subscribers.remove(reader)

    def _deliver(self, process: Process, *, lost: bool) -> None:
        published, self.model.published = self.model.published, []
        if lost:
            self.world.record(Kind.FAULT, "the published message is lost", who=process.name)
            return
        for channel, message in published:
            for reader in self._subscribers:
                reader.receive(channel, message)

    # -- what an observer sees

    def ends(self) -> list[int]:
        """Return when keys will expire, in virtual microseconds."""
        ends = map(self.model.end, self.model.names())
        return [end * 1000 - EPOCH - self.skew for end in ends if end is not None]

    def contents(self) -> list[tuple[Any, Any, int | None]]:
        """Return the keys with their values and expiries, without removing what has expired."""
        found = []
        for key in self.model.names():
            end = self.model.end(key)
            at = None if end is None else end * 1000 - EPOCH - self.skew
            if at is None or at > self.world.now:
                found.append((key, self.model.find(key), at))
        return found

    # -- what the scheduler can do

    def fail_over(self) -> str:
        """Promote the replica, which lacks the last write."""
        if self._replica is None:
            return "fails over; its replica had everything"
        self.model.data.replace(self._replica)
        self._replica = self.model.snapshot()
        for reader in list(self._subscribers):
            self.unsubscribe(reader)
        self._tell_monitor()
        return "fails over; the replica lacks the last write"

    def _tell_monitor(self) -> None:
        if self.monitor is not None:
            self.monitor.replaced(self)

    def disconnect(self, *, restart: bool) -> str:
        """Break all connections, and with `restart` lose all data but the scripts."""
        self.generation += 1
        waiting, self.blocked = self.blocked, []
        for reader in waiting:
            reader.serve(None)
        if not restart:
            return "loses all its connections"
        self.model.data.replace({})
        self._tell_monitor()
        return "restarts without its data"

    def evict(self) -> str:
        """Refuse to evict: a server that holds locks runs with `noeviction`."""
        return "is out of memory, and with noeviction drops nothing"

    def jump(self, seconds: float) -> str:
        """Set the clock ahead; keys expire early."""
        self.skew += round(seconds * MICROSECONDS)
        self._tell_monitor()
        return f"has its clock set ahead by {seconds:g} s"


class _BlockedReader:
    __slots__ = ("keys", "process", "reply", "thread", "world")

    def __init__(self, world: World, thread: Thread, keys: list[bytes]) -> None:
        self.world = world
        self.thread = thread
        self.process = thread.process
        self.keys = keys
        self.reply: list[bytes] | None = None

    @property
    def gone(self) -> bool:
        return self.process.crashed

    def serve(self, reply: list[bytes] | None) -> None:
        self.reply = reply
        self.world.wake(self.thread)


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
    """Join `SCRIPT LOAD`, which redis-py passes as one word."""
    if type(args[0]) is str and " " in args[0]:
        return (*args[0].split(), *args[1:])
    return args


def _words(args: tuple[Any, ...]) -> tuple[str, ...]:
    return tuple(encode(word).decode(errors="replace") for word in args)
