"""The explorer finds a broken production lock as soon as a script is changed."""

from __future__ import annotations

from dataclasses import replace
from hashlib import sha1

import pytest

from course.simulator.explore import Exploration, first_wrong, run_chunk, shortest
from course.simulator.explored_locks import ExploredLock, mixed, mutex, read_write, semaphore
from course.simulator.history import Wrong
from course.simulator.simulation import run_schedule
from locking.backends.redis import RedisLock
from locking.backends.redis_protocol import MUTEX, SHARED, Grant, Script, Scripts
from locking.backends.redis_shared import RedisReadLock, RedisSemaphore, RedisWriteLock

# A client that crashes in the simulation drops its lease.
pytestmark = [
    pytest.mark.long,
    pytest.mark.nightly,
    pytest.mark.usefixtures("dropped_leases"),
    pytest.mark.filterwarnings("ignore:the lease of lock:ResourceWarning"),
]

BUDGET = 4_000  # schedules; the production lock survives more than a hundred thousand
STEP = 250


def changed(script: Script, *edits: tuple[str, str]) -> Script:
    source = script.source
    for old, new in edits:
        assert old in source, f"{script.name}.lua no longer says {old!r}: change this test too"
        source = source.replace(old, new)
    return Script(script.name, source, sha1(source.encode(), usedforsecurity=False).hexdigest())


class ReleasesWithoutComparing(RedisLock):
    scripts = replace(
        MUTEX,
        release=changed(
            MUTEX.release,
            ("redis.call('GET', KEYS[1]) == ARGV[2] .. ':' .. ARGV[1] and ", ""),
            ("if belongs_to(redis.call('GET', KEYS[1]), holder) then", "if true then"),
        ),
    )


NO_MINT = ("math.max(last + 1, now_us)", "1")


class MintsNoFence(RedisLock):
    scripts = replace(
        MUTEX,
        acquire=changed(
            MUTEX.acquire,
            NO_MINT,
            ("math.max(tonumber(known[2] or 0) + 1, clock[1] * 1000000 + clock[2])", "1"),
        ),
        release=changed(MUTEX.release, NO_MINT),
    )


NO_LIVENESS = ("if alive_until and tonumber(alive_until) > now_ms then", "if true then")


class HandsOverToTheDead(RedisLock):
    scripts = replace(
        MUTEX,
        acquire=changed(MUTEX.acquire, NO_LIVENESS),
        release=changed(MUTEX.release, NO_LIVENESS),
    )


class LetsNewcomersPass(RedisLock):
    scripts = replace(
        MUTEX,
        acquire=changed(
            MUTEX.acquire,
            ("if not known[1] and redis.call('EXISTS', KEYS[3]) == 0 then", "if not known[1] then"),
        ),
    )


NO_WAKE = ("redis.call('RPUSH', list, fence .. ':' .. digits(now_us) .. ':' .. lease_ms)", "")


class WakesNobody(RedisLock):
    scripts = replace(
        MUTEX,
        acquire=changed(MUTEX.acquire, NO_WAKE),
        release=changed(MUTEX.release, NO_WAKE),
    )


class RenewsWhatItLost(RedisLock):
    scripts = replace(
        MUTEX,
        renew=changed(
            MUTEX.renew,
            (
                "  return 0\nend",
                "  redis.call('SET', KEYS[1], '1:' .. ARGV[1], 'PX', ARGV[2])\n  return 1\nend",
            ),
        ),
    )


class GrantsForEver(RedisLock):
    scripts = replace(
        MUTEX,
        acquire=changed(
            MUTEX.acquire,
            ("ARGV[1], 'PX', ARGV[2], 'NX')", "ARGV[1], 'NX')"),
        ),
    )


class IgnoresThatItIsTaken(RedisLock):
    scripts = replace(
        MUTEX,
        acquire=changed(
            MUTEX.acquire, ("if not value and ARGV[3] == 'u' then", "if ARGV[3] == 'u' then")
        ),
    )


class KeepsWhatItReleases(RedisLock):
    scripts = replace(
        MUTEX,
        release=changed(
            MUTEX.release, ("redis.call('DEL', KEYS[1])\n  return 1", "return 1"), NO_WAKE
        ),
    )


class ReturnsWhatIsOver(RedisLock):
    """The lock before it checked the time."""

    def granting(self, holder: str, caller: object, timeout: float | None):
        steps = super().granting(holder, caller, timeout)
        step = next(steps)
        while True:
            try:
                try:
                    answer = yield step
                except BaseException as error:  # noqa: BLE001 - the steps decide what to do
                    step = steps.throw(error)
                    continue
                if isinstance(answer, list) and answer[0]:
                    return Grant(answer[0], self.remote.clock.monotonic() - self.lease_seconds)
                step = steps.send(answer)
            except StopIteration as done:
                return done.value


def all_shared(*edits: tuple[str, str]) -> Scripts:
    return replace(
        SHARED, acquire=changed(SHARED.acquire, *edits), release=changed(SHARED.release, *edits)
    )


BESIDE_A_WRITER = all_shared(
    (
        "string.sub(holder, 1, 1) == 'r' and string.sub(inside[1], 1, 1) == 'r'",
        "string.sub(holder, 1, 1) == 'r'",
    )
)


class ReaderBesideAWriter(RedisReadLock):
    scripts = BESIDE_A_WRITER


class WriterWithSuchReaders(RedisWriteLock):
    scripts = BESIDE_A_WRITER


PASS_BY = """
if may_enter(holder) then
  leave_queue(waiter, holder)
  return {tonumber(grant(holder, lease_ms))}
end
"""
QUEUE_UP = "if ARGV[4] == '1' then"
PASSING = replace(SHARED, acquire=changed(SHARED.acquire, (QUEUE_UP, PASS_BY + QUEUE_UP)))


class ReaderThatPassesWriters(RedisReadLock):
    scripts = PASSING


class WriterThatIsPassed(RedisWriteLock):
    scripts = PASSING


FORGETTING = replace(
    SHARED,
    acquire=changed(SHARED.acquire, ("admit(nil) -- it may have blocked others", "")),
)


class ReaderBehindAWriterThatGaveUp(RedisReadLock):
    scripts = FORGETTING


class WriterThatGivesUp(RedisWriteLock):
    scripts = FORGETTING


class OnePermitTooMany(RedisSemaphore):
    scripts = all_shared(("taken <= tonumber(permits)", "taken <= tonumber(permits) + 1"))


class LeaksPermits(RedisSemaphore):
    scripts = replace(
        SHARED,
        release=changed(
            SHARED.release,
            ("redis.call('ZREM', KEYS[1], holder) == 1", "redis.call('ZSCORE', KEYS[1], holder)"),
        ),
    )


class PermitsThatNobodyIsToldOf(RedisSemaphore):
    scripts = all_shared(NO_WAKE)


def find(target: ExploredLock) -> tuple[Exploration, int, Wrong]:
    what = Exploration(target=target)
    for start in range(0, BUDGET, STEP):
        tally = run_chunk(what, start, STEP)
        if tally.violations:
            return what, *tally.violations[0]
    pytest.fail(f"{target} survived {BUDGET} schedules")


@pytest.mark.parametrize(
    ("target", "wrongs"),
    [
        (mutex(ReleasesWithoutComparing), {Wrong.NOT_THEIRS, Wrong.MISTAKEN}),
        (mutex(MintsNoFence), {Wrong.TOKEN}),
        (mutex(HandsOverToTheDead), {Wrong.GHOST}),
        (mutex(LetsNewcomersPass), {Wrong.ORDER, Wrong.ASLEEP, Wrong.KEPT}),
        (mutex(WakesNobody), {Wrong.ASLEEP}),
        (mixed(WakesNobody), {Wrong.ASLEEP}),
        (mutex(RenewsWhatItLost), {Wrong.MOVED, Wrong.MISTAKEN}),
        (mutex(GrantsForEver), {Wrong.LITTER}),
        (mutex(KeepsWhatItReleases), {Wrong.KEPT}),
        (mutex(ReturnsWhatIsOver), {Wrong.STILLBORN}),
        (mutex(WakesNobody, fair=False), {Wrong.ASLEEP}),
        (mutex(IgnoresThatItIsTaken, fair=False), {Wrong.MOVED, Wrong.MISTAKEN}),
        (read_write(ReaderBesideAWriter, WriterWithSuchReaders), {Wrong.TWO_HOLDERS}),
        (read_write(ReaderThatPassesWriters, WriterThatIsPassed), {Wrong.ORDER}),
        (read_write(ReaderBehindAWriterThatGaveUp, WriterThatGivesUp), {Wrong.ASLEEP}),
        (semaphore(OnePermitTooMany), {Wrong.TWO_HOLDERS}),
        (semaphore(LeaksPermits), {Wrong.KEPT}),
        (semaphore(PermitsThatNobodyIsToldOf), {Wrong.ASLEEP}),
    ],
    ids=lambda value: value.roles[0].kind.__name__ if isinstance(value, ExploredLock) else "",
)
def test_a_broken_lock_is_found(target, wrongs):
    what, seed, wrong = find(target)
    assert wrong in wrongs
    schedule, run = shortest(what, seed, lambda run: first_wrong(what, run) is wrong)
    assert len(schedule) <= 6, "the schedule is too long to read"
    assert run.has(wrong)


def test_a_living_holder_keeps_its_lease_in_the_simulation_too():
    """Otherwise every run would consist of lost leases and prove little."""
    run = run_schedule(Exploration(acts=frozenset()).experiment(seed=0))
    assert any("renew.lua" in str(event.what) for event in run.history)


def test_what_is_found_in_a_broken_lock_does_not_happen_to_the_real_one():
    for kind in (ReleasesWithoutComparing, HandsOverToTheDead, GrantsForEver):
        _, seed, _ = find(mutex(kind))
        assert run_chunk(Exploration(), seed, 1).violations == []


def test_without_the_fence_the_paused_holders_stale_write_is_accepted():
    """Without the fence, the explorer finds a stale write."""
    what = Exploration(fenced=False)
    for start in range(0, BUDGET, STEP):
        found = run_chunk(what, start, STEP).violations
        if found:
            assert {wrong for _, wrong in found} == {Wrong.STALE_WRITE}
            return
    pytest.fail("no stale write in sight")
