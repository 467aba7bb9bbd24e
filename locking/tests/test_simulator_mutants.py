"""The explorer is not blind: it finds the production lock broken as soon as a script is changed."""

from __future__ import annotations

from dataclasses import replace
from hashlib import sha1

import pytest

from locking.backends.redis import RedisLock
from locking.backends.redis_protocol import MUTEX, Script
from locking.simulator.explore import Exploration, first_wrong, run_chunk, shortest
from locking.simulator.history import Wrong
from locking.simulator.stage import play

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


NO_WAKE = ("redis.call('RPUSH', list, fence .. ':' .. digits(now_us))", "")


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
            ("digits .. ':' .. ARGV[1], 'PX', ARGV[2])", "digits .. ':' .. ARGV[1])"),
        ),
    )


def find(kind: type[RedisLock]) -> tuple[Exploration, int, Wrong]:
    what = Exploration(kind=kind)
    for start in range(0, BUDGET, STEP):
        tally = run_chunk(what, start, STEP)
        if tally.violations:
            return what, *tally.violations[0]
    pytest.fail(f"{kind.__name__} survived {BUDGET} schedules")


@pytest.mark.parametrize(
    ("kind", "wrongs"),
    [
        (ReleasesWithoutComparing, {Wrong.NOT_THEIRS, Wrong.MOVED, Wrong.TWO_HOLDERS}),
        (MintsNoFence, {Wrong.STALE_WRITE}),
        (HandsOverToTheDead, {Wrong.GHOST}),
        (LetsNewcomersPass, {Wrong.ORDER, Wrong.ASLEEP}),
        (WakesNobody, {Wrong.ASLEEP}),
        (RenewsWhatItLost, {Wrong.MOVED}),
        (GrantsForEver, {Wrong.NOBODY_ENTERS}),
    ],
    ids=lambda value: value.__name__ if isinstance(value, type) else "",
)
def test_a_broken_script_is_found(kind, wrongs):
    what, seed, wrong = find(kind)
    assert wrong in wrongs
    schedule, run = shortest(what, seed, lambda run: first_wrong(what, run) is wrong)
    assert len(schedule) <= 6, "a finding that nobody can read"
    assert run.violations[-1].wrong is wrong


def test_a_living_holder_keeps_its_lease_in_the_simulation_too():
    """Else every run would be one of holders that lose their lease, and prove little."""
    run = play(Exploration(acts=frozenset()).play(seed=0))
    assert any("renew.lua" in str(event.what) for event in run.history)


def test_what_is_found_in_a_broken_lock_does_not_happen_to_the_real_one():
    for kind in (ReleasesWithoutComparing, HandsOverToTheDead, GrantsForEver):
        _, seed, _ = find(kind)
        assert run_chunk(Exploration(), seed, 1).violations == []


def test_without_the_fence_the_paused_holders_stale_write_is_accepted():
    """The fence is what protects, and the explorer knows: without it, it finds the stale write."""
    what = Exploration(fenced=False)
    for start in range(0, BUDGET, STEP):
        found = run_chunk(what, start, STEP).violations
        if found:
            assert {wrong for _, wrong in found} == {Wrong.STALE_WRITE}
            return
    pytest.fail("no stale write in sight")
