"""The Redis lock for asyncio: the same scripts, keys and promises as `locking.redis_lock`.

An `AsyncRedisLock` and a `RedisLock` of one name exclude each other and share one queue. A task
takes the place of a thread. All waiting tasks of an event loop share one connection of the client's
pool, on a cluster one per lock, and commands are sent on a few others at a time: a thousand tasks
do not need a thousand connections.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import random
import time
import weakref
from collections.abc import Coroutine
from typing import Any

from redis import exceptions
from redis.asyncio import Redis, RedisCluster
from redis.exceptions import NoScriptError, RedisError, ResponseError

from locking.base import (
    AsyncLease,
    AsyncLock,
    LockError,
    LockTimeout,
    LockUnavailable,
    lease_seconds,
    note_on,
    wait_seconds,
)
from locking.redis_lock import (
    ACQUIRE,
    ANSWER_GRACE,
    BELL,
    DEFAULT_TIMEOUT,
    EVICT,
    MAX_SLEEP,
    NO_ANSWER,
    POLL,
    RECONNECT_PAUSE,
    RELEASE,
    RELEASED_BEFORE,
    RENEW,
    RENEWALS,
    RIDE_OUT,
    STATUS,
    TOKENS,
    Grant,
    LockStatus,
    RedisHandle,
    RedisLeaseState,
    Refusal,
    Script,
    closes_connections,
    grant_in,
    lock_error,
    log_eviction,
    ms,
    text,
)

logger = logging.getLogger(__name__)

AT_ONCE = 8
"""Connections on which the tasks of a loop send commands at the same time."""

LISTEN = 1.0
"""Seconds for which the listener blocks before it looks which waiters are left."""

_background: set[asyncio.Task[Any]] = set()
"""Tasks that nobody waits for: asyncio itself keeps them weakly."""


def in_background(work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
    """Run something to its end, whether or not somebody waits for it."""
    task = asyncio.create_task(work)
    _background.add(task)
    task.add_done_callback(_background.discard)
    return task


class AsyncServer(Redis):
    """A client on the same pool that reads each answer once; see `locking.redis_lock.Server`."""

    def __init__(self, client: Redis) -> None:
        super().__init__(connection_pool=client.connection_pool)

    async def parse_response(
        self, connection: Any, command_name: str | bytes, **options: Any
    ) -> Any:
        """Read the answer as bytes; an error of the connection does not make redis-py send again.

        Raises:
            NoAnswer: the connection failed, or the answer did not come in time.
        """
        try:
            # Without a limit: redis-py would return nothing when one is over. `send` has it.
            return await connection.read_response(disable_decoding=True, timeout=math.inf)
        except ResponseError as error:
            if closes_connections(error):
                await connection.disconnect(nowait=True)
                await self.connection_pool.disconnect(inuse_connections=False)
            raise
        except (exceptions.ConnectionError, exceptions.TimeoutError, OSError) as error:
            await connection.disconnect(nowait=True)
            raise NoAnswer(str(error)) from error


class NoAnswer(RedisError):
    """A command was sent, and it is unknown whether the server has executed it."""


UNKNOWN = (*NO_ANSWER, NoAnswer, TimeoutError)
"""What `run` raises if it is unknown whether the server has executed the command."""


class Traffic:
    """What the tasks of one event loop share for the locks of one client."""

    def __init__(self, client: Any) -> None:
        self.on_cluster = isinstance(client, RedisCluster)
        pool = getattr(client, "connection_pool", None)
        most = getattr(pool, "max_connections", None) or math.inf
        # One connection stays for the listener, and releases never wait behind acquires.
        self.acquires = asyncio.Semaphore(int(max(1, min(AT_ONCE, (most - 1) // 2))))
        self.others = asyncio.Semaphore(int(max(1, min(AT_ONCE, (most - 1) // 2))))
        given = getattr(pool, "connection_kwargs", {}).get("socket_timeout")
        self.timeout = float(given or DEFAULT_TIMEOUT)
        self.may_listen = most >= 2
        self.mailboxes: dict[str, Mailbox] = {}


_traffic: weakref.WeakKeyDictionary[Any, weakref.WeakKeyDictionary[Any, Traffic]]
_traffic = weakref.WeakKeyDictionary()
"""By event loop, and by the client's pool or the cluster's client."""


def traffic_of(server: Any) -> Traffic:
    """Return what the tasks of the running loop share for a server."""
    of_loop = _traffic.setdefault(asyncio.get_running_loop(), weakref.WeakKeyDictionary())
    place = server if isinstance(server, RedisCluster) else server.connection_pool
    found = of_loop.get(place)
    if found is None:
        found = of_loop[place] = Traffic(server)
    return found


def server_of(client: Any) -> Any:
    """Return what sends a lock's commands; see `locking.redis_lock.server_of`."""
    if isinstance(client, RedisCluster):
        return client
    if isinstance(client, Redis):
        return AsyncServer(client)
    raise TypeError(
        f"an AsyncRedisLock needs an asyncio client of redis-py, not {client!r}; a blocking client "
        "makes a RedisLock"
    )


async def send(server: Any, *words: Any, within: float) -> Any:
    """Send one command; wait at most so many seconds for a connection and the answer."""
    task = asyncio.current_task()
    assert task is not None
    cancellations = task.cancelling()
    async with asyncio.timeout(within):
        answer = await server.execute_command(*words)
    if task.cancelling() > cancellations:
        raise asyncio.CancelledError  # a library below has swallowed it
    return answer


async def run(server: Any, script: Script, key: str, *words: str | bytes, within: float) -> Any:
    """Run a script of a lock once; see `locking.redis_lock.run`."""
    try:
        return await send(server, "EVALSHA", script.sha, 1, key, *words, within=within)
    except NoScriptError:
        return await send(server, "EVAL", script.source, 1, key, *words, within=within)


async def ask(
    server: Any, script: Script, name: str, key: str, *words: str, give_up: float = math.inf
) -> Any:
    """Run a script, a second time if there was no answer; see `locking.redis_lock.ask`."""
    traffic = traffic_of(server)
    async with traffic.acquires if script is ACQUIRE else traffic.others:
        for repeats in (False, True):
            left = max(give_up - time.monotonic(), 0.0) + ANSWER_GRACE
            try:
                return await run(server, script, key, *words, within=min(traffic.timeout, left))
            except UNKNOWN as error:
                if repeats or time.monotonic() >= give_up:
                    raise lock_error(name, error) from error
            except RedisError as error:
                raise lock_error(name, error) from error
    raise AssertionError("the second try returns or raises")


class Mailbox:
    """The messages of all waiting tasks of a loop, whose lists one task pops together.

    One who joins rings a bell, a further list, so that the listener begins anew with the new list
    among its own.
    """

    def __init__(self) -> None:
        self.boxes: dict[str, Box] = {}
        self._bell = ""
        self._popping: frozenset[str] = frozenset()
        self._listener: asyncio.Task[Any] | None = None
        self._ringing: asyncio.Task[Any] | None = None

    def join(self, wake_list: str) -> Box:
        """Have a list read from now on; return its box."""
        self._bell = self._bell or f"{wake_list}:bell"
        box = self.boxes[wake_list] = Box()
        return box

    async def wait(self, server: Any, wake_list: str, seconds: float) -> bytes | None:
        """Wait for the next message of a list; return None if none comes in time.

        Raises:
            RedisError: the server does not answer the listener.
        """
        box = self.boxes[wake_list]
        if self._listener is None or self._listener.done():
            self._listener = in_background(self._listen(server))
        elif self._popping and wake_list not in self._popping:
            self._rouse(server)
        if not box.messages:
            box.arrived.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await box.arrived.wait()
        problem, box.problem = box.problem, None
        if problem is not None:
            raise problem
        return box.messages.pop(0) if box.messages else None

    def _rouse(self, server: Any) -> None:
        if self._ringing is None or self._ringing.done():
            self._ringing = in_background(self._ring_until_all_are_popped(server))

    async def _ring_until_all_are_popped(self, server: Any) -> None:
        # If the bell is lost, the listener looks again after `LISTEN` seconds.
        with contextlib.suppress(*UNKNOWN, RedisError):
            while self._popping and not self.boxes.keys() <= self._popping:
                await run(server, BELL, self._bell, within=LISTEN)

    async def _listen(self, server: Any) -> None:
        try:
            while self.boxes:
                lists = [self._bell, *self.boxes]
                self._popping = frozenset(lists)
                reply = await send(
                    server, "BLPOP", *lists, f"{LISTEN:.3f}", within=LISTEN + DEFAULT_TIMEOUT
                )
                self._popping = frozenset()
                box = self.boxes.get(text(reply[0])) if reply else None
                if box is not None:
                    box.messages.append(reply[1])
                    box.arrived.set()
                    await asyncio.sleep(0)  # its task most likely leaves
        except (*UNKNOWN, RedisError) as error:
            for box in self.boxes.values():
                box.problem = NoAnswer(str(error))
                box.arrived.set()
        finally:
            self._popping = frozenset()


class Box:
    """What one waiting task receives: messages, or the reason why none come."""

    __slots__ = ("arrived", "messages", "problem")

    def __init__(self) -> None:
        self.arrived = asyncio.Event()
        self.messages: list[bytes] = []
        self.problem: Exception | None = None


class AsyncWaiter:
    """A waiting task's place among those of its loop; a context manager that leaves it.

    On a client with a pool of one connection it does not block it, but asks again soon.
    """

    def __init__(self, server: Any, key: str, wake_list: str) -> None:
        self._server, self._list = server, wake_list
        self._traffic = traffic_of(server)
        # On a cluster, the lists of different locks may be on different nodes.
        self._group = key if self._traffic.on_cluster else ""
        self._mailbox = self._traffic.mailboxes.get(self._group)
        if self._mailbox is None:
            self._mailbox = self._traffic.mailboxes[self._group] = Mailbox()
        self._mailbox.join(wake_list)

    async def wait(self, seconds: float) -> bytes | None:
        """See `Mailbox.wait`."""
        if not self._traffic.may_listen:
            await asyncio.sleep(min(seconds, POLL))
            return None
        assert self._mailbox is not None
        return await self._mailbox.wait(self._server, self._list, seconds)

    def stop(self) -> None:
        """Have the list read no longer."""
        assert self._mailbox is not None
        self._mailbox.boxes.pop(self._list, None)
        if self._group and not self._mailbox.boxes:
            self._traffic.mailboxes.pop(self._group, None)


class AsyncRedisLease(RedisLeaseState, AsyncLease):
    """A granted `AsyncRedisLock`; see `locking.redis_lock.RedisLease`."""

    __slots__ = ("_ended", "_lock_key", "_renewal", "_renews", "server")

    def __init__(self, lock: AsyncRedisLock) -> None:
        super().__init__(lock.name, TOKENS.holder_id(lock.owner_name), lock.seconds)
        self.server = lock.server
        self._lock_key = lock.key
        self._renews = lock.renew
        self._renewal: asyncio.TimerHandle | None = None
        self._ended = asyncio.Event()

    async def wait_lost(self, timeout: float | None = None) -> bool:
        """Wait until it is lost or released, at most `timeout` seconds; return whether lost."""
        give_up = math.inf if timeout is None else time.monotonic() + timeout
        while not self.lost_reason() and not self._released:
            left = min(give_up - time.monotonic(), self.remaining())
            if time.monotonic() >= give_up:
                return False
            with contextlib.suppress(TimeoutError):  # it may be extended meanwhile
                await asyncio.wait_for(self._ended.wait(), max(0.0, left))
        return bool(self.lost_reason())

    def mark_lost(self, reason: str) -> None:
        """See `LeaseState.mark_lost`."""
        super().mark_lost(reason)
        self._ended.set()

    def mark_released(self, *, held: bool = True) -> None:
        """See `LeaseState.mark_released`."""
        self._ended.set()
        super().mark_released(held=held)

    def keep(self, due: float) -> None:
        """Have the lease renewed from `due` (monotonic) on, if its lock renews leases."""
        self.drop()
        if self._renews:
            # A weak reference: a lease that the program has dropped is not renewed.
            self._renewal = asyncio.get_running_loop().call_later(
                max(0.0, due - time.monotonic()), _renew_in_background, weakref.ref(self)
            )

    def drop(self) -> None:
        """Have the lease renewed no longer."""
        if self._renewal is not None:
            self._renewal.cancel()
            self._renewal = None

    async def renew(self) -> float:
        """Renew the lease; return when the next renewal is due; see `RedisLease.renew`."""
        if not self.must_be_renewed():
            waiting = not self._granted
            return time.monotonic() + self.seconds / RENEWALS if waiting else math.inf
        extensions, sent_at = self._extensions, time.monotonic()
        answer = await self._ask(RENEW, self.holder_id, ms(self.seconds), "0")
        return self.note_renewal(answer, sent_at, extensions)

    async def extend(self, seconds: float) -> None:
        """See `RedisLease.extend`."""
        seconds = lease_seconds(seconds)
        self.check()
        sent_at = time.monotonic()
        deadline = sent_at + seconds
        self._extensions += 1
        self._deadline = min(self._deadline, deadline)  # it may be shortened before we know it
        try:
            answer = await self._ask(RENEW, self.holder_id, ms(seconds), "1")
            if answer == 0:
                self.mark_lost("the server no longer knows it")
            else:
                self._deadline = deadline
        finally:
            self._extensions += 1
        self.check()
        self.seconds = seconds
        self.keep(sent_at + seconds / RENEWALS)

    async def release(self) -> None:
        """See `RedisLease.release`. If the caller is cancelled, it goes on in the background."""
        if not self.count_release():
            return
        self.lost_reason()  # an end that is over is noted before the server is asked
        if self._process is not TOKENS.process:
            self.mark_released(held=False)  # the parent's: nothing is sent
        self.drop()
        await asyncio.shield(in_background(self._release()))

    async def _release(self) -> None:
        words = (self.holder_id, str(self.token), "")
        repeated, self._release_sent = self._release_sent, True
        if not repeated:
            traffic = traffic_of(self.server)
            try:
                async with traffic.others:
                    answer = await run(
                        self.server, RELEASE, self._lock_key, *words, within=traffic.timeout
                    )
                held = answer == 1
            except UNKNOWN:
                repeated = True
            except RedisError as error:
                self._release_sent = False  # the server has refused it
                raise lock_error(self.name, error) from error
        if repeated:
            held = await self._ask(RELEASE, *words) in RELEASED_BEFORE
        self.mark_released(held=held)

    async def _ask(self, script: Script, *words: str) -> int:
        answer: int = await ask(self.server, script, self.name, self._lock_key, *words)
        return answer


def _renew_in_background(reference: weakref.ref[AsyncRedisLease]) -> None:
    lease = reference()
    if lease is not None:
        in_background(_renew(lease))


async def _renew(lease: AsyncRedisLease) -> None:
    try:
        due = await lease.renew()
    except LockError:
        due = lease.try_again_at()
    except Exception:
        logger.exception("a lease of %r was not renewed; trying again", lease.name)
        due = time.monotonic() + MAX_SLEEP
    if not math.isinf(due) and not lease.released and not lease.is_releasing():
        lease.keep(due)


class AsyncRedisLock(RedisHandle, AsyncLock):
    """A named lock for asyncio; arguments and promises are those of `RedisLock`.

    `client` is an asyncio client of redis-py.

    >>> async with lock as lease:  # doctest: +SKIP
    ...     await sell(fence=lease.token)
    >>> async with await lock.acquire(timeout=1) as lease:  # doctest: +SKIP
    ...     await sell(fence=lease.token)
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
        AsyncLock.__init__(self)
        RedisHandle.__init__(
            self,
            name, lease=lease, timeout=timeout, fair=fair, renew=renew, owner=owner,
            reentrant=reentrant,
        )  # fmt: skip
        self.server = server_of(client)

    async def acquire(self, timeout: float | None = None) -> AsyncRedisLease:
        """See `RedisLock.acquire`. If the caller is cancelled, it leaves the queue."""
        limit = wait_seconds(self.timeout if timeout is None else timeout)
        again: AsyncRedisLease | None = self.held_again() if self.reentrant else None
        if again is not None:
            return again
        lease = AsyncRedisLease(self)
        if self.renew:
            lease.keep(time.monotonic() + self.seconds / RENEWALS)
        try:
            grant = await self._wait_for_grant(lease.holder_id, limit)
        except (LockTimeout, LockUnavailable):
            lease.drop()
            raise
        except BaseException as error:
            lease.drop()
            await asyncio.shield(in_background(self._leave_queue(lease.holder_id, error)))
            raise
        lease.begin(grant.since + self.seconds, grant.token)
        self._latest_lease = weakref.ref(lease)
        return lease

    async def _wait_for_grant(self, holder_id: str, limit: float) -> Grant:
        """See `RedisLock._wait_for_grant`."""
        sent_at = time.monotonic()
        deadline = sent_at + limit
        give_up = deadline if limit else math.inf  # a single try has the client's time-out
        bear_until = -math.inf  # a server that has never answered is not waited for
        words = (holder_id, self._milliseconds, self._mode)
        with contextlib.ExitStack() as waiting:
            waiter: AsyncWaiter | None = None
            while True:
                last_try = sent_at >= deadline
                queues = "0" if last_try else "1"
                try:
                    answer = await ask(
                        self.server, ACQUIRE, self.name, self.key, *words, queues, give_up=give_up
                    )
                except LockUnavailable:
                    left = min(deadline, bear_until) - time.monotonic()
                    if left <= 0:
                        raise
                    pause = random.uniform(RECONNECT_PAUSE / 2, RECONNECT_PAUSE)
                    await asyncio.sleep(min(left, pause))
                    sent_at = time.monotonic()
                    continue
                now = time.monotonic()
                bear_until = now + RIDE_OUT if math.isinf(limit) else math.inf
                if answer[0] and now < sent_at + self.seconds:
                    return Grant(answer[0], sent_at)
                if last_try:
                    late = self.not_in_time(limit)
                    if answer[0]:  # the answer took longer than the lease
                        await self._leave_queue(holder_id, late)
                    raise late
                if not answer[0]:
                    if waiter is None:
                        waiter = AsyncWaiter(self.server, self.key, self.wake_list(holder_id))
                        waiting.callback(waiter.stop)
                    grant = await self._wait_for_message(
                        waiter, Refusal(*answer[1:]), sent_at, deadline
                    )
                    if grant is not None and time.monotonic() < grant.since + self.seconds:
                        return grant
                sent_at = time.monotonic()

    async def _wait_for_message(
        self, waiter: AsyncWaiter, refusal: Refusal, sent_at: float, deadline: float
    ) -> Grant | None:
        try:
            message = await waiter.wait(refusal.seconds_to_wait(deadline))
        except UNKNOWN:
            return None  # with the message, perhaps: the next question finds out
        except RedisError as error:
            raise lock_error(self.name, error) from error
        return None if message is None else grant_in(message, refusal, sent_at)

    async def _leave_queue(self, holder_id: str, error: BaseException) -> None:
        with note_on(error):
            entry = self.queue_entry(holder_id)
            await ask(self.server, RELEASE, self.name, self.key, holder_id, "0", entry)

    async def status(self) -> LockStatus:
        """See `RedisLock.status`."""
        return LockStatus.read(await ask(self.server, STATUS, self.name, self.key))

    async def owner(self) -> str | None:
        """See `Lock.owner`."""
        return (await self.status()).owner

    async def locked(self) -> bool:
        """See `Lock.locked`."""
        return await self.owner() is not None

    async def waiters(self) -> int:
        """See `Lock.waiters`."""
        return len((await self.status()).waiters)

    async def force_release(self, reason: str) -> bool:
        """See `Lock.force_release`."""
        value = await ask(self.server, EVICT, self.name, self.key)
        if value:
            log_eviction(self.name, value, reason)
        return bool(value)
