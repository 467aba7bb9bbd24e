"""The simulated Redis server: its data, blocked readers, subscribers and faults."""

from __future__ import annotations

from collections import defaultdict
from math import inf
from typing import TYPE_CHECKING, Any

from redis.exceptions import ResponseError

from course.simulator.history import MICROSECONDS, Kind, Text, _
from course.simulator.process import Process, Server
from course.simulator.redis_model import RedisModel
from course.simulator.schedule import Act
from course.simulator.world import EPOCH, World

if TYPE_CHECKING:
    from course.simulator.redis_client import SimulatedConnection


SCRIPT_NAMES: dict[str, str] = {}
"""Names of scripts in timelines, by source."""


class RedisServer(Server):
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
        super().__init__(world, name)
        self.lock_key = lock_key.encode()
        self.skew = 0
        self.model = RedisModel(lambda: EPOCH + world.now + self.skew)
        self.scripts: defaultdict[bytes, str] = defaultdict(lambda: "script")  # names by digest
        self.cut_off: set[str] = set()  # clients that cannot reach this server
        self.blocked: list[SimulatedConnection] = []
        self.generation = 0  # of its connections: those of an earlier one are broken
        self._subscribers: list[SimulatedConnection] = []
        self._replicated = replicated
        self._replica = self.model.snapshot() if replicated else None

    def load(self, source: str) -> None:
        """Make a script known; the timeline shows its name."""
        digest = self.model.execute([b"SCRIPT", b"LOAD", source.encode()])
        self.scripts[digest] = SCRIPT_NAMES.get(source, "script")

    def execute(
        self,
        connection: SimulatedConnection,
        words: list[bytes],
        shown: tuple[Any, ...],
        effect: Act | None,
    ) -> Any:
        """Execute a command that has arrived; return its reply, which may be a `ResponseError`."""
        model, process = self.model, connection.process
        if words[0] in (b"SUBSCRIBE", b"UNSUBSCRIBE"):
            return self._subscribe(connection, words, shown)
        if self.world.monitor is not None:
            self.world.monitor.sees(self, shown[0])
        before = model.snapshot() if self._replicated else None
        touched = model.data.touched
        try:
            reply = model.execute(words)
        except ResponseError as problem:
            self.record(process, shown, problem)
            return problem
        changed = model.data.touched != touched
        if before is not None and changed:
            self._replica = before
        if reply is not None or shown[0] != "BLPOP":
            kind = Kind.LOST if effect is Act.LOSE_REPLY else Kind.COMMAND
            self.record(process, shown, reply, kind)
        if self.world.monitor is not None:
            self.world.monitor.saw_command(self, process, changed=changed)
        if self.blocked and changed:
            self._serve_blocked()
        if model.published:
            self._deliver(process, lost=effect is Act.LOSE_MESSAGE)
        return reply

    def holders(self) -> dict[bytes, float]:
        """Return, for each "token:owner" whose lease has not ended, the seconds until it does."""
        value, now = self.model.find(self.lock_key), self.model.clock() // 1000
        end = self.model.end(self.lock_key)
        ends = inf if end is None else (end - now) / 1000
        if isinstance(value, dict):
            lefts = {holder: (end - now) / 1000 for holder, end in value.items()}
            return {holder: min(left, ends) for holder, left in lefts.items() if left > 0}
        return {value.partition(b":")[2]: ends} if isinstance(value, bytes) else {}

    # -- blocking pops: served in the order in which they came, as by the real server

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

    def _subscribe(
        self, reader: SimulatedConnection, words: list[bytes], shown: tuple[Any, ...]
    ) -> list[Any]:
        self.record(reader.process, shown)
        if words[0] == b"UNSUBSCRIBE":
            self.unsubscribe(reader)
        else:
            reader.channels |= set(words[1:])
            self._subscribers.append(reader)
        return [words[0].lower(), words[-1], len(reader.channels)]

    def unsubscribe(self, reader: SimulatedConnection) -> None:
        """Send no further messages to a connection."""
        reader.channels.clear()
        self._subscribers = [one for one in self._subscribers if one is not reader]

    def _deliver(self, process: Process, *, lost: bool) -> None:
        published, self.model.published = self.model.published, []
        if lost:
            self.world.record(
                Kind.FAULT, Text(_("the published message is lost")), who=process.name
            )
            return
        for channel, message in published:
            for reader in self._subscribers:
                reader.hear(channel, message)

    # -- what an observer sees

    def end_of(self, key: bytes) -> int | None:
        """Return when a key expires, in virtual microseconds; None: never."""
        end = self.model.end(key)
        return None if end is None else end * 1000 - EPOCH - self.skew

    def ends(self) -> list[int]:
        """Return when keys will expire, in virtual microseconds."""
        return [end for end in map(self.end_of, self.model.names()) if end is not None]

    def contents(self) -> list[tuple[Any, Any, int | None]]:
        """Return the keys with their values and expiries, without removing what has expired."""
        found = []
        for key in self.model.names():
            end = self.end_of(key)
            if end is None or end > self.world.now:
                found.append((key, self.model.find(key), end))
        return found

    # -- what the scheduler can do

    def suffer(self, act: Act, seconds: float) -> str:
        """Suffer a fault; return a description."""
        match act:
            case Act.FAIL_OVER:
                return self._fail_over()
            case Act.DISCONNECT | Act.RESTART:
                return self._disconnect(restart=act is Act.RESTART)
            case Act.CLOCK_JUMP:
                self.skew += round(seconds * MICROSECONDS)
                self._tell_monitor()
                return Text(_("has its clock set ahead by %s s"), f"{seconds:g}")
        return Text(_("is out of memory, and drops nothing"))

    def _fail_over(self) -> str:
        """Promote the replica, which lacks the last write."""
        if self._replica is None:
            return Text(_("fails over; its replica had everything"))
        self.model.data.replace(self._replica)
        self._replica = self.model.snapshot()
        for reader in list(self._subscribers):
            self.unsubscribe(reader)
        self._tell_monitor()
        return Text(_("fails over; the replica lacks the last write"))

    def _disconnect(self, *, restart: bool) -> str:
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

    def _tell_monitor(self) -> None:
        if self.world.monitor is not None:
            self.world.monitor.replaced(self)
