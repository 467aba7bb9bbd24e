"""A lock on Redis or Valkey: fair, fenced, handed over, on redis-py's own connection pools.

A holder that releases hands the lock to the next waiter in the queue. That waiter sleeps in a
blocking pop (`BLPOP`) on a list of its own, so no hand-over waits for somebody to ask. Two clients:

    time 0.0   A acquires "item:7" for 10 s:  lock = "1001:a", the script returns the token 1001
    time 0.1   B acquires it:  the script sees A's lock, puts B into the queue and answers "held for
               9.9 s, you are first"; B pops its list for at most 0.4 s, and asks again until …
    time 3.3   A's lease is renewed to 13.3 by this process's renewal thread, while A works
    time 5.0   A releases:  one script sets lock = "1002:b" and pushes the token 1002 to B's list;
               B wakes up as the holder, without a further command

If A is paused from 0.2 on, nothing renews its lease: at 10.05 B asks again and gets the token 1002.
When A goes on at 12.0, it finds its lease ended, and what it writes with the token 1001 is refused
by whatever has seen 1002.

Each of `acquire`, `release` and `renew` is one Lua script (`locking/lua/`), which recognises the
holder by a token of its own. So a command whose answer was lost is sent again without harm.

One client at a time holds the lock while the server keeps its data and no holder is paused past its
lease. No lease can promise more: after a fail-over to a replica that lacks the last writes, or when
a paused process comes back, two may believe that they hold it. The fencing token covers both: it
grows with every grant, also when the server has lost all its data.

**Connections** are the pool's, taken for one command and given back; a handle per request costs
none. Waiters of a process share one connection, on a cluster one per lock: a waiter reads the lists
of all, and gives the connection back at least every 0.4 s. With a pool of one connection waiters do
not block, they ask again. So a holder always gets a connection to renew or release with.

**Time-outs and retries**: a command is given the client's `socket_timeout` (one second if it has
none), and less where the caller's time-out ends before; it is sent at most twice, a release at most
three times. Only connecting
follows the client's own retries, so give locks a client that has none (`locking.redis_client`).
A server that says it is read-only or loading gets its connections closed, so that a lock
survives a fail-over behind a fixed address.

**Slow or dead waiters** do not hold up the others: one that does not read its grant within 0.35 s
goes back to the head of the queue, and one that has not asked for 5 s is removed from it.
"""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import logging
import math
import os
import random
import re
import socket
import threading
import time
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

from redis import Redis, RedisCluster, exceptions
from redis.exceptions import NoScriptError, RedisClusterException, RedisError, ResponseError

from locking.base import (
    Capabilities,
    Flag,
    Lease,
    LeaseState,
    Lock,
    LockError,
    LockTimeout,
    LockUnavailable,
    lease_seconds,
    lock_name,
    note_on,
    wait_seconds,
)

logger = logging.getLogger(__name__)

SLICE = 0.4
"""Seconds that a waiter blocks before it asks again, which also says that it lives: short enough
that waiters who died cost those behind them a second, long enough to cost almost nothing."""

JITTER = 0.05
"""Seconds after the end of the holder's lease until the first waiter looks whether the holder has
crashed, so that the server has removed the key; those behind it look a little later."""

MAX_JITTER = 0.1
"""Seconds: the longest of these delays, however many wait in front."""

RIDE_OUT = 30.0
"""Seconds for which a waiter without a time-out keeps asking a server that no longer answers: a
fail-over or a restart takes less."""

RECONNECT_PAUSE = 0.2
"""Seconds: the longest pause between two tries of that waiter."""

POLL = 0.05
"""Seconds between the questions of a waiter that may not block a connection."""

MAX_READERS = 16
"""Locks of a cluster whose lists a process pops at the same time; waiters for further ones poll."""

ANSWER_GRACE = 0.25
"""Seconds to wait for an answer past the caller's time-out: the last try is sent *at* its end, and
a healthy server across a network answers within this."""

DEFAULT_TIMEOUT = 1.0
"""Seconds to wait for an answer where the client sets no `socket_timeout`."""

RENEWALS = 3
"""A lease is renewed after this part of it: the third try still comes before its end."""

MAX_SLEEP = 1.0
"""Seconds for which the renewal thread sleeps at most. It wakes by itself before the first renewal
of a lease of three times this, so that acquiring one costs no switch to another thread."""

MAX_IDLE = 10.0
"""Seconds without a lease after which the renewal thread ends; the next lease starts one."""

NO_ANSWER = (exceptions.ConnectionError, exceptions.TimeoutError, exceptions.ReadOnlyError,
             exceptions.TryAgainError, exceptions.ClusterDownError,
             RedisClusterException)  # fmt: skip
"""Errors after which it is unknown whether the server executed the command, or it asks for another
connection. The scripts know what they have done, so the command is sent again."""

RELEASED_BEFORE = (1, 2)
"""Answers to a repeated release that say that the lock was ours until then. 2 says "not any more":
an earlier one has released the lock, or an operator had taken it before."""

FOREIGN_KEY = re.compile("WRONGTYPE (.*?)(?: script: |$)")
"""The server's error, or a script's own, that a key holds something else, without the place."""


# --- what blocking and asyncio locks share: no input or output ------------------------------------


@dataclass(frozen=True, slots=True)
class Script:
    """A Lua script. The server knows it by its hash once it was sent in full."""

    source: str
    sha: str

    @staticmethod
    @cache
    def load(name: str) -> Script:
        """Read `lua/<name>.lua`, with the file `lua/<part>.lua` in place of a line `-- @part`."""
        folder = Path(__file__).parent / "lua"

        def insert(line: re.Match[str]) -> str:
            return (folder / f"{line[1]}.lua").read_text()

        source = (folder / f"{name}.lua").read_text()
        source = re.sub(r"^-- @(\w+)$", insert, source, flags=re.MULTILINE)
        # EVALSHA is defined with SHA-1; the hash protects nothing here.
        return Script(source, hashlib.sha1(source.encode(), usedforsecurity=False).hexdigest())


ACQUIRE = Script.load("acquire")
RELEASE = Script.load("release")
RENEW = Script.load("renew")
EVICT = Script.load("evict")
STATUS = Script.load("status")
BELL = Script.load("bell")


class Tokens:
    """Makes tokens that no other process makes, and forgets them after a fork."""

    def __init__(self) -> None:
        self.reset()
        os.register_at_fork(after_in_child=self.reset)

    def reset(self) -> None:
        """Begin anew: a child of this process must not repeat its tokens."""
        # A random start and a counter cost a tenth of fresh random bytes for each token.
        self._start = os.urandom(9).hex()
        self._next: Callable[[], int] = itertools.count().__next__
        self.process = f"{socket.gethostname()}/{os.getpid()}"

    def holder_id(self, owner: str) -> str:
        """Return the name of one acquisition: a token of its own, which has no colon, and the owner
        for operators.
        """
        return f"{self._start}{self._next():x}:{owner or self.process}"


TOKENS = Tokens()


def key_of(name: str) -> str:
    """Return the lock's key. Its name is the hash tag, so all keys of a lock are on one node.

    Raises:
        TypeError: the name is not text.
        ValueError: it is empty, or begins with a brace, so that it is no hash tag.
    """
    if lock_name(name)[0] in "{}":
        raise ValueError(f"the name of a Redis lock does not begin with a brace: {name!r}")
    return f"lock:{{{name}}}"


def ms(seconds: float) -> str:
    """Return seconds in whole milliseconds, as the scripts take them; at least one."""
    return str(max(1, round(seconds * 1000)))


def text(value: bytes | str) -> str:
    """Return an answer as text, whether the client decodes answers or not."""
    return value.decode(errors="backslashreplace") if isinstance(value, bytes) else value


def owner_in(value: bytes | str) -> str:
    """Return the owner in "…:token:owner"; a foreign value as it is."""
    return text(value).split(":", 2)[-1]


def lock_error(name: str, error: Exception) -> LockError:
    """Return what a caller gets for an error of the client or of the server."""
    if foreign := FOREIGN_KEY.search(str(error)):
        return LockError(
            f"a key of the lock {name!r} holds something else ({foreign[1]}): delete it, or choose "
            "another name"
        )
    refused = (ResponseError, exceptions.AuthenticationError, exceptions.AuthorizationError)
    how = "refused" if isinstance(error, refused) else "did not answer"
    return LockUnavailable(f"the server of the lock {name!r} {how}: {error}")


@dataclass(frozen=True, slots=True)
class LockStatus:
    """A lock at one moment.

    Attributes:
        owner: the holder's name, by default "host/process id"; None if the lock is free.
        token: the holder's fencing token; 0 if the lock is free, or the key's value is no lock's.
        remaining: seconds until the lease ends, unless it is renewed.
        waiters: names of the living clients in the queue, the next holder first.
    """

    owner: str | None
    token: int
    remaining: float
    waiters: tuple[str, ...]

    @staticmethod
    def read(answer: Any) -> LockStatus:
        """Return what the answer of the script `status` says."""
        value, left_ms, waiting = answer
        # A waiter is "f10000:token:owner".
        waiters = tuple(owner_in(waiter) for waiter in waiting)
        if not value:
            return LockStatus(None, 0, 0.0, waiters)
        fence = text(value).partition(":")[0]
        token = int(fence) if fence.isdecimal() else 0
        return LockStatus(owner_in(value), token, max(left_ms, 0) / 1000, waiters)


class Refusal(NamedTuple):
    """The script's answer to an `acquire` that has to wait."""

    ends_in_ms: int
    place: int
    server_us: int
    last_fence: int

    def seconds_to_wait(self, deadline: float) -> float:
        """Return for how long to wait for a message before asking again.

        No longer than the holder's lease, because the holder may have crashed, nor past the
        deadline (monotonic), at which the last try is made.
        """
        jitter = min(max(self.place, 1) * random.uniform(JITTER / 2, JITTER), MAX_JITTER)
        until_end = max(self.ends_in_ms, 0) / 1000 + jitter
        return max(0.001, min(SLICE, until_end, deadline - time.monotonic()))


class Grant(NamedTuple):
    """A granted lock: its fencing token, and the earliest time of the grant on our clock."""

    token: int
    since: float


def grant_in(message: bytes | str, refusal: Refusal, sent_at: float) -> Grant | None:
    """Return the grant in a message from a waiter's list; None if it only says "ask again".

    Args:
        message: "fence:server time in us:lease in ms".
        refusal: the answer to the waiter's last question.
        sent_at: monotonic time at which that question was sent.
    """
    fence, granted_us = map(int, text(message).split(":")[:2])
    # The message may have been pushed before that answer, by a grant that was revoked since.
    if fence <= refusal.last_fence:
        return None
    # The lease began when the last holder released. To be safe, the server's time between its
    # answer and that grant is counted from when we sent the question, but not past now.
    waited = max(0, granted_us - refusal.server_us) / 1e6
    return Grant(fence, min(time.monotonic(), sent_at + waited))


class RedisLeaseState(LeaseState):
    """What a process knows of a lease on Redis, blocking or asyncio.

    Attributes:
        holder_id: "token:owner", which names this lease on the server.
        seconds: its length.
    """

    __slots__ = ("_count", "_extensions", "_process", "_release_sent", "_releasing", "holder_id",
                 "seconds")  # fmt: skip

    def __init__(self, name: str, holder_id: str, seconds: float) -> None:
        super().__init__(name)
        self.holder_id = holder_id
        self.seconds = seconds
        self._process = TOKENS.process
        self._count = 1  # acquires of a reentrant handle that are not released
        self._extensions = 0  # how often an `extend` began or ended: odd while one is under way
        self._releasing = False
        self._release_sent = False  # the server may have executed a release without our knowing

    def lost_reason(self) -> str:
        """See `LeaseState.lost_reason`; a child process has lost what its parent holds."""
        if self._process is not TOKENS.process:
            self.mark_lost("it belongs to the parent of this forked process")
        return super().lost_reason()

    def enter_again(self) -> bool:
        """Count another acquire of a reentrant handle; return False if the lease is over."""
        with self._guard:
            if not self._granted or self._releasing or self._released or self._lost:
                return False
            self._count += 1
        return self.remaining() > 0

    def count_release(self) -> bool:
        """Count a release; return whether it is the last one, so that the server must know."""
        with self._guard:
            if self._released:
                return False
            if self._count > 1:
                self._count -= 1
                return False
            self._releasing = True
            return True

    def is_releasing(self) -> bool:
        """Return whether the last release has begun."""
        return self._releasing

    # -- renewal, every third of the lease

    def must_be_renewed(self) -> bool:
        """Return whether the server has granted the lease and it is not over."""
        return self._granted and not self._released and not self.lost_reason()

    def note_renewal(self, answer: int, sent_at: float, extensions: int) -> float:
        """Note the answer to a renewal; return when the next one is due (monotonic).

        Args:
            answer: of the script `renew`.
            sent_at: monotonic time at which it was sent.
            extensions: the number of `_extensions` then.
        """
        if answer == 0:
            # Our own release may have overtaken the renewal; then nothing is lost.
            if not self._releasing:
                self.mark_lost("the server no longer knows it")
            return math.inf
        # An `extend` meanwhile may have shortened the lease after this renewal; it knows the end.
        if extensions == self._extensions and extensions % 2 == 0:
            self._deadline = max(self._deadline, sent_at + self.seconds)
        return sent_at + self.seconds / RENEWALS

    def try_again_at(self) -> float:
        """Return when to renew again after a renewal without an answer (monotonic)."""
        return min(time.monotonic() + self.seconds / RENEWALS**2, self._deadline)


class RedisHandle:
    """The settings of a lock, for `RedisLock` and `AsyncRedisLock`; see there."""

    capabilities: ClassVar[Capabilities] = Capabilities(
        fence=True, fair=True, renewal=True, extend=True, reentrant=True, owner=True,
        waiters=True, force_release=True,
    )  # fmt: skip

    def __init__(
        self,
        name: str,
        *,
        lease: float,
        timeout: float | None,
        fair: bool,
        renew: bool,
        owner: str,
        reentrant: bool,
    ) -> None:
        self.name = name
        self.key = key_of(name)
        self.seconds = lease_seconds(lease)
        self.timeout = timeout
        wait_seconds(timeout)
        self.renew = renew
        self._milliseconds = ms(self.seconds)
        self._mode = "f" if fair else "u"
        self.owner_name = owner
        self.reentrant = reentrant
        self._latest_lease: Callable[[], Any] = _nothing  # a weak reference to the last lease

    def wake_list(self, holder_id: str) -> str:
        """Return the key of the list by which the holder is woken."""
        return f"{self.key}:wake:{holder_id.partition(':')[0]}"

    def queue_entry(self, holder_id: str) -> str:
        """Return the holder's entry in the queue."""
        return f"{self._mode}{self._milliseconds}:{holder_id}"

    def held_again(self) -> Any:
        """Return the lease that this reentrant handle holds, counted once more, if it lasts."""
        lease = self._latest_lease()
        return lease if lease is not None and lease.enter_again() else None

    def not_in_time(self, timeout: float) -> LockTimeout:
        """Return the error for a lock that was not free in time."""
        return LockTimeout(f"the lock {self.name!r} was not free within {timeout:g} s")

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name!r}>"


def _nothing() -> None:
    """Stand for a reference to no lease."""


def closes_connections(error: Exception) -> bool:
    """Return whether an answer means that this connection leads to the wrong server.

    A primary that was demoted keeps its connections open and refuses every write on them. A client
    that connects to the same address again reaches the new one.
    """
    return isinstance(error, exceptions.ReadOnlyError) or str(error).startswith(
        ("READONLY", "LOADING", "MASTERDOWN", "CLUSTERDOWN")
    )


# --- the blocking lock ----------------------------------------------------------------------------


class Pool:
    """What this process knows of a client's pool, or of a cluster's client.

    Attributes:
        wake_ups: the waiters of this process, on a cluster by their lock, else under "".
        urgent: how many holders wait for a connection, to release or to renew. Meanwhile nobody
            else takes one.
    """

    wake_ups: dict[str, WakeUps]
    urgent: int

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """Begin anew: a forked child has none of its parent's waiters and holders."""
        self.wake_ups = {}
        self.urgent = 0

    @staticmethod
    def of(place: Any) -> Pool:
        """Return what is known of a pool or cluster's client."""
        found = _POOLS.get(place)
        return _POOLS.setdefault(place, Pool()) if found is None else found


_POOLS: weakref.WeakKeyDictionary[Any, Pool] = weakref.WeakKeyDictionary()


def _forget_all() -> None:
    for pool in list(_POOLS.values()):
        pool.forget()


os.register_at_fork(after_in_child=_forget_all)


class Server(Redis):
    """A client on the same pool, which follows the rules of the lock: one try, with a time limit.

    It is redis-py's client in all else, so whatever wraps `execute_command` (OpenTelemetry and the
    like) sees the lock's commands.
    """

    def __init__(self, client: Redis) -> None:
        super().__init__(connection_pool=client.connection_pool)
        self._pool = Pool.of(client.connection_pool)

    def _execute_command(self, *words: Any, within: float = math.inf, urgent: bool = False) -> Any:
        """Send a command once on a connection of the pool, and return its answer as bytes.

        Args:
            words: the command.
            within: seconds for a connection and the answer; no longer than the client's time-out,
                except for a blocking pop, which brings its own.
            urgent: whether a holder sends it, which gets a connection before all others.
        """
        give_up = time.monotonic() + within
        connection = self._try_to_connect(urgent) or self._wait_for_connection(give_up, urgent)
        try:
            limit = getattr(connection, "socket_timeout", None) or DEFAULT_TIMEOUT
            if words[0] == "BLPOP":
                limit += float(words[-1])
            connection.send_command(*words)
            if not connection.can_read(max(0.0, min(limit, give_up - time.monotonic()))):
                raise exceptions.TimeoutError("no answer in time")
            return connection.read_response(disable_decoding=True)
        except ResponseError as error:
            if closes_connections(error):
                connection.disconnect()
                self.connection_pool.disconnect(inuse_connections=False)
            raise
        except BaseException:
            # A late answer must never be read as that of another command.
            connection.disconnect()
            raise
        finally:
            self.connection_pool.release(connection)

    def _wait_for_connection(self, give_up: float, urgent: bool) -> Any:
        """Return a connection of the pool; all are in use, so wait until `give_up` (monotonic)."""
        # A waiter of this process gives its own back within `SLICE`.
        end = min(give_up, time.monotonic() + DEFAULT_TIMEOUT + SLICE)
        self._pool.urgent += urgent
        try:
            while time.monotonic() < end:
                time.sleep(random.uniform(0.001, 0.005))
                connection = self._try_to_connect(urgent)
                if connection is not None:
                    return connection
        finally:
            self._pool.urgent -= urgent
        raise exceptions.ConnectionError("all connections are in use")

    def _try_to_connect(self, urgent: bool) -> Any:
        """Return a connection; None if the pool or the server has no further one, or only one for
        a holder.
        """
        if self._pool.urgent and not urgent:
            return None
        try:
            return self.connection_pool.get_connection()
        except exceptions.MaxConnectionsError:
            return None
        except exceptions.ConnectionError as error:
            if "max number of clients" in str(error):
                # The pool gives out first what it got back last: this connection, which is not
                # open. To close the idle ones below it makes room on the server.
                self.connection_pool.disconnect(inuse_connections=False)
                return None
            raise
        except RedisError:
            raise
        except BaseException:
            # A signal's exception in the middle of a greeting leaves a connection in the pool whose
            # next answer would be that of the greeting.
            self.connection_pool.disconnect(inuse_connections=False)
            raise


def server_of(client: Any) -> Any:
    """Return the object that sends a lock's commands: a cluster's client itself, else a `Server` on
    its pool.

    Raises:
        TypeError: it is no blocking client of redis-py.
    """
    if isinstance(client, RedisCluster):
        return client
    if isinstance(client, Redis):
        return Server(client)
    kind = "an asyncio client makes an AsyncRedisLock" if "asyncio" in repr(type(client)) else ""
    raise TypeError(f"a RedisLock needs a blocking client of redis-py, not {client!r}; {kind}")


def run(
    server: Any, script: Script, key: str, *words: str | bytes, within: float = math.inf
) -> Any:
    """Run a script of a lock once, and return its answer.

    Args:
        server: of `server_of`.
        script: the script to run.
        key: key of the lock.
        words: the script's arguments.
        within: seconds for the answer; at most the client's time-out.
    """
    limits: dict[str, Any] = {}
    if not isinstance(server, RedisCluster):  # which finds the node by itself, in its own time
        limits = {"within": within, "urgent": script is RELEASE or script is RENEW}
    try:
        return server.execute_command("EVALSHA", script.sha, 1, key, *words, **limits)
    except NoScriptError:
        return server.execute_command("EVAL", script.source, 1, key, *words, **limits)


class WakeUps:
    """The waiters of this process for the locks of one server; one of them reads for all.

    The reader pops the lists of all waiters in one command, and gives the messages to their
    waiters. When it asks the server again, another waiter becomes the reader. A waiter that
    joins rings a bell (pushes to a further list that the reader pops as well), so that the reader
    starts again and includes the new list.
    """

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._waiters: dict[str, Waiter] = {}
        self._reader: Waiter | None = None
        self._read: frozenset[str] = frozenset()
        self._bell = ""

    def join(self, wake_list: str) -> Waiter:
        """Have a list read from now on, by any waiter; return its waiter, which must `stop`."""
        waiter = Waiter(self, wake_list)
        with self._guard:
            self._bell = self._bell or f"{wake_list}:bell"
            self._waiters[wake_list] = waiter
        return waiter

    def remove(self, waiter: Waiter) -> None:
        """Have a waiter's list read no longer."""
        with self._guard:
            if self._waiters.get(waiter.list) is waiter:
                del self._waiters[waiter.list]

    def is_idle(self) -> bool:
        """Return whether nobody waits."""
        return not self._waiters

    def wait(self, server: Any, waiter: Waiter, seconds: float) -> bytes | None:
        """Wait for the waiter's next message; return None if none comes in time.

        Raises:
            RedisError: the server does not answer the reader.
        """
        give_up = time.monotonic() + seconds
        with self._guard:
            unread = self._reader is not None and waiter.list not in self._read
        if unread and not waiter.messages:
            run(server, BELL, self._bell, within=seconds)
        try:
            while not waiter.messages:
                left = give_up - time.monotonic()
                if left <= 0:
                    return None
                waiter.waits_until = give_up
                if self._becomes_reader(waiter):
                    self._pop(server, left)
                else:
                    waiter.roused.wait(left)
            return waiter.messages.pop(0)
        finally:
            waiter.waits_until = 0.0
            self._stop_reading(waiter)

    def _becomes_reader(self, waiter: Waiter) -> bool:
        with self._guard:
            # A reader that a signal interrupted in `_stop_reading` has woken no successor. Once
            # its time is over, another waiter takes its place.
            if self._reader is None or time.monotonic() > self._reader.waits_until + SLICE:
                self._reader = waiter
            return self._reader is waiter

    def _pop(self, server: Any, seconds: float) -> None:
        """Pop the lists once, for at most so many seconds, and hand on what comes."""
        with self._guard:
            lists = [self._bell, *self._waiters]
            self._read = frozenset(lists)
        on_cluster = isinstance(server, RedisCluster)
        limits = {} if on_cluster else {"within": seconds + RIDE_OUT}
        try:
            reply = server.execute_command("BLPOP", *lists, f"{seconds:.3f}", **limits)
        finally:
            self._read = frozenset()
        if reply:
            with self._guard:
                found = self._waiters.get(text(reply[0]))
                if found is not None:
                    found.messages.append(reply[1])
                    found.roused.set()

    def _stop_reading(self, waiter: Waiter) -> None:
        with self._guard:
            if self._reader is not waiter:
                return
            self._reader = None
            for successor in self._waiters.values():
                if successor.waits_until and not successor.messages:
                    successor.roused.set()
                    return


class Waiter:
    """A client that waits for a lock: its list, and the messages that were read from it.

    Attributes:
        waits_until: monotonic time until which it waits for a message; 0 while it asks the server.
    """

    __slots__ = ("_wake_ups", "list", "messages", "roused", "waits_until")

    def __init__(self, wake_ups: WakeUps, wake_list: str) -> None:
        self._wake_ups = wake_ups
        self.list = wake_list
        self.messages: list[bytes] = []
        self.roused = Flag()
        self.waits_until = 0.0

    def wait(self, server: Any, seconds: float) -> bytes | None:
        """See `WakeUps.wait`."""
        return self._wake_ups.wait(server, self, seconds)

    def stop(self) -> None:
        """See `WakeUps.remove`."""
        self._wake_ups.remove(self)


class PollingWaiter:
    """A waiter that may not block a connection: it asks the server again soon."""

    def wait(self, server: Any, seconds: float) -> None:
        """Wait for a moment."""
        time.sleep(min(seconds, POLL))

    def stop(self) -> None:
        """Do nothing."""


def join_waiters(server: Any, key: str, wake_list: str) -> Waiter | PollingWaiter:
    """Return a waiter for a lock's list, among the others of this process."""
    on_cluster = isinstance(server, RedisCluster)
    place = server if on_cluster else server.connection_pool
    groups = Pool.of(place).wake_ups
    group = key if on_cluster else ""
    if group not in groups:
        for name in [name for name, waiters in list(groups.items()) if waiters.is_idle()]:
            groups.pop(name, None)
    most = getattr(place, "max_connections", None)
    if (most is not None and most < 2) or (group not in groups and len(groups) >= MAX_READERS):
        return PollingWaiter()
    return groups.setdefault(group, WakeUps()).join(wake_list)


class Renewer:
    """Renews the leases of this process when they are due, in one thread of its own.

    A lease is registered before its acquire is sent, and removed before its release is sent. So
    renewal covers all of its time, and never extends a lock that was given up. It knows leases by
    weak references: one that the program has dropped is not renewed.
    """

    def __init__(self) -> None:
        self._reset()
        os.register_at_fork(after_in_child=self._reset)

    def _reset(self) -> None:
        # A forked child has neither the leases nor the threads of its parent. The flag and the
        # thread are made at first use: after gevent has patched `threading`.
        self._due: dict[str, tuple[Callable[[], RedisLease | None], float]] = {}
        self._guard = threading.Lock()
        self._thread: threading.Thread | None = None
        self._wake_up: Flag | None = None
        self._wakes_at = math.inf

    def keep(self, lease: RedisLease, due: float) -> None:
        """Renew a lease from `due` (monotonic) on.

        Raises:
            LockError: no thread can be started. The next lease tries again.
        """
        with self._guard:
            self._due[lease.holder_id] = (weakref.ref(lease), due)
            # Not a flag: a signal's exception may have interrupted the start of a thread.
            if self._thread is None or not self._thread.is_alive():
                try:
                    self._start()
                except RuntimeError as error:
                    del self._due[lease.holder_id]
                    raise LockError(f"no thread can be started to renew leases: {error}") from error
            elif due < self._wakes_at and self._wake_up is not None:
                self._wake_up.set()

    def forget(self, lease: RedisLease) -> None:
        """Renew a lease no longer."""
        self._due.pop(lease.holder_id, None)

    def _start(self) -> None:
        self._wake_up = Flag()
        self._wakes_at = math.inf
        self._thread = threading.Thread(
            target=self._work, args=(self._wake_up,), name="lock-renewal", daemon=True
        )
        try:
            self._thread.start()
        except KeyError as error:
            # A signal's exception came between the start of the thread and CPython's note of it:
            # `Thread.start` then fails while it undoes that note, and hides the exception.
            raise error.__context__ or error from None

    def _work(self, wake_up: Flag) -> None:
        idle_since = time.monotonic()
        # Another thread has taken over if this one was thought not to have started.
        while wake_up is self._wake_up:
            # In this order: a lease that is registered while `renew_due` runs finds an infinite
            # `_wakes_at`, and sets the flag, which is not cleared again before the wait.
            wake_up.clear()
            self._wakes_at = math.inf
            wakes_at = self.renew_due()
            now = time.monotonic()
            with self._guard:
                if self._due:
                    idle_since = now
                elif now - idle_since > MAX_IDLE:
                    self._thread = self._wake_up = None
                    return
            self._wakes_at = wakes_at
            wake_up.wait(wakes_at - now)

    def renew_due(self) -> float:
        """Renew the leases that are due; return when to look again (monotonic)."""
        wakes_at = time.monotonic() + MAX_SLEEP
        unreachable: set[int] = set()  # servers that do not answer, which must not delay the others
        for holder_id, (reference, due) in list(self._due.items()):
            lease = reference()
            if lease is None:
                self._due.pop(holder_id, None)
                continue
            if due <= time.monotonic() and id(lease.server) not in unreachable:
                due = self._renew(lease, unreachable)
                if math.isinf(due):
                    self._due.pop(holder_id, None)
                elif holder_id in self._due:  # else it was released meanwhile
                    self._due[holder_id] = (reference, due)
            wakes_at = min(wakes_at, due)
            del lease  # the program may drop it while this thread sleeps
        return wakes_at

    def _renew(self, lease: RedisLease, unreachable: set[int]) -> float:
        try:
            return lease.renew()
        except LockError:
            unreachable.add(id(lease.server))
            return lease.try_again_at()
        except Exception:
            logger.exception("a lease of %r was not renewed; trying again", lease.name)
            return time.monotonic() + MAX_SLEEP


RENEWER = Renewer()
"""The renewer of this process."""


class RedisLease(RedisLeaseState, Lease):
    """A granted `RedisLock`. Release it as often as its reentrant handle has acquired it."""

    __slots__ = ("_lock_key", "_renewer", "server")

    def __init__(self, lock: RedisLock) -> None:
        # Not the handle itself: the handle may be dropped while the lease is held.
        super().__init__(lock.name, TOKENS.holder_id(lock.owner_name), lock.seconds)
        self.server = lock.server
        self._lock_key = lock.key
        self._renewer = lock.renewer if lock.renew else None

    def keep(self, due: float) -> None:
        """Have the lease renewed from `due` (monotonic) on, if its lock renews leases."""
        if self._renewer is not None:
            self._renewer.keep(self, due)

    def drop(self) -> None:
        """Have the lease renewed no longer."""
        if self._renewer is not None:
            self._renewer.forget(self)

    def renew(self) -> float:
        """Renew the lease; return when the next renewal is due. For the renewal thread.

        Raises:
            LockUnavailable: the server does not answer; the lease lasts until its end.
        """
        if not self.must_be_renewed():
            # Either the acquire is still waiting, or the lease is over.
            waiting = not self._granted
            return time.monotonic() + self.seconds / RENEWALS if waiting else math.inf
        extensions, sent_at = self._extensions, time.monotonic()
        answer = self._ask(RENEW, self.holder_id, ms(self.seconds), "0")
        return self.note_renewal(answer, sent_at, extensions)

    def extend(self, seconds: float) -> None:
        """Let the lease end so many seconds from now, and be renewed for as long; see `Lease`."""
        seconds = lease_seconds(seconds)
        self.check()
        sent_at = time.monotonic()
        deadline = sent_at + seconds
        self._extensions += 1
        self._deadline = min(self._deadline, deadline)  # it may be shortened before we know it
        try:
            answer = self._ask(RENEW, self.holder_id, ms(seconds), "1")
            if answer == 0:
                self.mark_lost("the server no longer knows it")
            else:
                self._deadline = deadline
        finally:
            self._extensions += 1
        self.check()
        self.seconds = seconds
        self.keep(sent_at + seconds / RENEWALS)

    def release(self) -> None:
        """Release the lock; see `Lease.release`."""
        if not self.count_release():
            return
        is_parents = self._process is not TOKENS.process
        if is_parents or time.monotonic() >= self._deadline:
            self.lost_reason()  # an end that is over is noted before the server is asked
        if is_parents:
            self.mark_released(held=False)  # it raises, so nothing is sent
        if self._renewer is not None:
            self.drop()
        words = (self.holder_id, str(self.token), "")
        repeated, self._release_sent = self._release_sent, True
        if not repeated:
            try:
                held = run(self.server, RELEASE, self._lock_key, *words) == 1
            except NO_ANSWER:
                repeated = True
            except RedisError as error:
                self._release_sent = False  # the server has refused it
                raise lock_error(self.name, error) from error
        if repeated:
            held = self._ask(RELEASE, *words) in RELEASED_BEFORE
        self.mark_released(held=held)

    def _ask(self, script: Script, *words: str) -> int:
        answer: int = ask(self.server, script, self.name, self._lock_key, *words)
        return answer


def ask(
    server: Any, script: Script, name: str, key: str, *words: str, give_up: float = math.inf
) -> Any:
    """Run a script of a lock, a second time if there was no answer, and return the answer.

    Args:
        server: of `server_of`.
        script: the script to run.
        name: name of the lock, for errors.
        key: key of the lock.
        words: the script's arguments.
        give_up: monotonic time of the caller's time-out; infinity without one.

    Raises:
        LockUnavailable: the server does not answer, or refuses.
        LockError: a key of the lock holds something else.
    """
    for repeats in (False, True):
        within = math.inf if math.isinf(give_up) else give_up - time.monotonic() + ANSWER_GRACE
        try:
            return run(server, script, key, *words, within=max(within, ANSWER_GRACE))
        except NO_ANSWER as error:
            if repeats or time.monotonic() >= give_up:
                raise lock_error(name, error) from error
        except RedisError as error:
            raise lock_error(name, error) from error
    raise AssertionError("the second try returns or raises")


class RedisLock(RedisHandle, Lock):
    """A named lock on Redis (from 6.2) or Valkey: one server, Sentinels or a cluster.

    Args:
        client: a blocking client of redis-py, best from `locking.redis_client.connect`.
        name: the lock's. All handles of a name exclude each other, blocking and asyncio.
        lease: seconds for which a crashed holder blocks the others.
        timeout: seconds for which an acquire without its own waits, also that of `with lock:`;
            None: without an end.
        fair: whether waiters get the lock in the order in which they came. Without it, a free
            lock goes to the client that asks first: more hand-overs per second, in no order.
        renew: whether the lease of a living holder is renewed, so that the holder may work longer.
        owner: the holder's name for others, by default "host/process id".
        reentrant: whether this handle may acquire what it already holds. It gets the same lease,
            with the same token, and releases it as often. The handle counts, not the thread, so
            give each thread a handle of its own.
    """

    def __init__(
        self,
        client: Redis | RedisCluster,
        name: str,
        *,
        lease: float = 10.0,
        timeout: float | None = None,
        fair: bool = True,
        renew: bool = True,
        owner: str = "",
        reentrant: bool = False,
    ) -> None:
        Lock.__init__(self)
        RedisHandle.__init__(
            self,
            name, lease=lease, timeout=timeout, fair=fair, renew=renew, owner=owner,
            reentrant=reentrant,
        )  # fmt: skip
        self.server = server_of(client)
        self.renewer = RENEWER

    def acquire(self, timeout: float | None = None) -> RedisLease:
        """Wait until the lock is ours, and return its lease; see `Lock.acquire`.

        An acquire fails at once if the server does not answer its first command. Later it
        survives reconnects and fail-overs: for its time-out, or for half a minute if it has none.
        """
        limit = wait_seconds(self.timeout if timeout is None else timeout)
        again: RedisLease | None = self.held_again() if self.reentrant else None
        if again is not None:
            return again
        lease = RedisLease(self)
        if self.renew:
            # Before it is granted, so that no moment of the lease is without renewal.
            lease.keep(time.monotonic() + self.seconds / RENEWALS)
        try:
            grant = self._wait_for_grant(lease.holder_id, limit)
        except (LockTimeout, LockUnavailable):
            lease.drop()
            raise
        except BaseException as error:
            lease.drop()
            self._leave_queue(lease.holder_id, error)
            raise
        lease.begin(grant.since + self.seconds, grant.token)
        self._latest_lease = weakref.ref(lease)
        return lease

    def _wait_for_grant(self, holder_id: str, limit: float) -> Grant:
        """Ask and wait until the lock is granted; return a grant that has not ended."""
        sent_at = time.monotonic()
        deadline = sent_at + limit
        give_up = deadline if limit else math.inf  # a single try has the client's time-out
        keep_trying_until = -math.inf  # a server that has never answered is not waited for
        words = (holder_id, self._milliseconds, self._mode)
        with contextlib.ExitStack() as waiting:
            waiter: Waiter | PollingWaiter | None = None
            while True:
                last_try = sent_at >= deadline
                queues = "0" if last_try else "1"
                try:
                    answer = ask(
                        self.server, ACQUIRE, self.name, self.key, *words, queues, give_up=give_up
                    )
                except LockUnavailable:
                    left = min(deadline, keep_trying_until) - time.monotonic()
                    if left <= 0:
                        raise
                    time.sleep(min(left, random.uniform(RECONNECT_PAUSE / 2, RECONNECT_PAUSE)))
                    sent_at = time.monotonic()
                    continue
                now = time.monotonic()
                keep_trying_until = now + RIDE_OUT if math.isinf(limit) else math.inf
                if answer[0] and now < sent_at + self.seconds:
                    return Grant(answer[0], sent_at)
                if last_try:
                    late = self.not_in_time(limit)
                    if answer[0]:  # the answer took longer than the lease
                        self._leave_queue(holder_id, late)
                    raise late
                # A grant that came too late may be another client's by now. If it is still ours,
                # the server begins the lease anew when it is asked again.
                if not answer[0]:
                    if waiter is None:
                        waiter = join_waiters(self.server, self.key, self.wake_list(holder_id))
                        waiting.callback(waiter.stop)
                    grant = self._wait_for_message(waiter, Refusal(*answer[1:]), sent_at, deadline)
                    if grant is not None and time.monotonic() < grant.since + self.seconds:
                        return grant
                sent_at = time.monotonic()

    def _wait_for_message(
        self, waiter: Waiter | PollingWaiter, refusal: Refusal, sent_at: float, deadline: float
    ) -> Grant | None:
        """Wait for a message after a refusal; return the grant in it."""
        try:
            message = waiter.wait(self.server, refusal.seconds_to_wait(deadline))
        except NO_ANSWER:
            # The answer may have contained the grant; the next acquire script reports it.
            return None
        except RedisError as error:
            raise lock_error(self.name, error) from error
        return None if message is None else grant_in(message, refusal, sent_at)

    def _leave_queue(self, holder_id: str, error: BaseException) -> None:
        """Leave the queue, or release a lock that was granted meanwhile, after an interruption."""
        with note_on(error):
            entry = self.queue_entry(holder_id)
            ask(self.server, RELEASE, self.name, self.key, holder_id, "0", entry)

    def status(self) -> LockStatus:
        """Return who holds the lock and who waits for it, read in one command.

        Raises:
            LockUnavailable: the server does not answer.
        """
        return LockStatus.read(ask(self.server, STATUS, self.name, self.key))

    def owner(self) -> str | None:
        """See `Lock.owner`."""
        return self.status().owner

    def waiters(self) -> int:
        """See `Lock.waiters`."""
        return len(self.status().waiters)

    def force_release(self, reason: str) -> bool:
        """See `Lock.force_release`."""
        value = ask(self.server, EVICT, self.name, self.key)
        if value:
            log_eviction(self.name, value, reason)
        return bool(value)


def log_eviction(name: str, value: bytes | str, reason: str) -> None:
    """Log that an operator has taken a lock from its holder."""
    logger.warning("the lock %r was taken from %s: %s", name, owner_in(value), reason)
