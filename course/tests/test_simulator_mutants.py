"""The explorer finds a broken production lock as soon as a script is changed."""

from hashlib import sha1
from typing import Any

import pytest

from course.simulator.explored_locks import ExploredLock, mixed, mutex
from course.simulator.history import Wrong
from course.simulator.search import Exploration, run_seeds, shortest
from course.simulator.simulation import run_schedule
from locking.backends.redis import RedisLock
from locking.backends.redis_protocol import MUTEX, Script, Scripts

pytestmark = [pytest.mark.long, pytest.mark.nightly]

BUDGET = 4_000  # schedules; the production lock survives more than a hundred thousand
STEP = 250


Edit = tuple[str, str]


def edited(scripts: Scripts, **edits: list[Edit]) -> Scripts:
    """Return the scripts with changes, by the script's name."""
    return scripts._replace(
        **{name: changed(getattr(scripts, name), one) for name, one in edits.items()}
    )


def changed(script: Script, edits: list[Edit]) -> Script:
    source = script.source
    for old, new in edits:
        assert old in source, f"{script.name}.lua no longer says {old!r}: change this test too"
        source = source.replace(old, new)
    return Script(script.name, source, sha1(source.encode(), usedforsecurity=False).hexdigest())


def broken(kind: type[RedisLock], scripts: Scripts) -> Any:
    return type(f"Broken{kind.__name__}", (kind,), {"scripts": scripts})


def broken_mutex(fair: Any = True, **edits: list[Edit]) -> ExploredLock:
    return mutex(broken(RedisLock, edited(MUTEX, **edits)), fair=fair)


def in_both(*edits: Edit) -> dict[str, list[Edit]]:
    """Return changes of the code that an acquire and a release share."""
    return {"acquire": list(edits), "release": list(edits)}


NO_COMPARISON = [
    ("redis.call('GET', KEYS[1]) == ARGV[2] .. ':' .. ARGV[1] and ", ""),
    ("if belongs_to(redis.call('GET', KEYS[1]), holder) then", "if true then"),
]
NO_MINT = ("math.max(last_fence() + 1, now_us)", "1")
NO_FIRST_MINT = ("math.max(last + 1, clock[1] * 1000000 + clock[2])", "1")
NO_LIVENESS = ("if alive_until and tonumber(alive_until) > now_ms then", "if true then")
NEWCOMERS_PASS = (
    "if last and not known[1] and redis.call('EXISTS', KEYS[3]) == 0 then",
    "if not known[1] then",
)
NO_WAKE = ("redis.call('RPUSH', list, fence .. ':' .. digits(now_us) .. ':' .. lease_ms)", "")
LOST_IS_RENEWED = (
    "  return 0\nend",
    "  redis.call('SET', KEYS[1], '1:' .. ARGV[1], 'PX', ARGV[2])\n  return 1\nend",
)
NO_EXPIRY = ("ARGV[1], 'PX', ARGV[2], 'NX')", "ARGV[1], 'NX')")
TAKEN_IS_IGNORED = ("if not value and ARGV[3] == 'u' then", "if ARGV[3] == 'u' then")
KEPT = ("redis.call('DEL', KEYS[1])\n  return 1", "return 1")


class ReturnsWhatIsOver(RedisLock):
    """A lock whose grants are over when it returns them."""

    def granting(self, holder: str, caller: object, timeout: float | None):
        grant = yield from super().granting(holder, caller, timeout)
        return grant._replace(since=grant.since - self.lease_seconds)


def find(target: ExploredLock) -> tuple[Exploration, int, Wrong]:
    what = Exploration(target=target)
    for start in range(0, BUDGET, STEP):
        tally = run_seeds(what, range(start, start + STEP))
        if tally.violations:
            return what, *tally.violations[0]
    pytest.fail(f"{target} survived {BUDGET} schedules")


MUTEX_WAKES_NOBODY = edited(MUTEX, **in_both(NO_WAKE))

BROKEN: dict[str, tuple[ExploredLock, *tuple[Wrong, ...]]] = {
    "releases without comparing": (
        broken_mutex(release=NO_COMPARISON), Wrong.NOT_THEIRS, Wrong.MISTAKEN
    ),
    "mints no fence": (
        broken_mutex(acquire=[NO_MINT, NO_FIRST_MINT], release=[NO_MINT]), Wrong.TOKEN
    ),
    "hands over to the dead": (broken_mutex(**in_both(NO_LIVENESS)), Wrong.GHOST),
    "lets newcomers pass": (
        broken_mutex(acquire=[NEWCOMERS_PASS]), Wrong.ORDER, Wrong.ASLEEP, Wrong.KEPT
    ),
    "wakes nobody": (broken_mutex(**in_both(NO_WAKE)), Wrong.ASLEEP),
    "wakes nobody, mixed": (mixed(broken(RedisLock, MUTEX_WAKES_NOBODY)), Wrong.ASLEEP),
    "wakes nobody, unfair": (broken_mutex(fair=False, **in_both(NO_WAKE)), Wrong.ASLEEP),
    "renews what it lost": (broken_mutex(renew=[LOST_IS_RENEWED]), Wrong.MOVED, Wrong.MISTAKEN),
    "grants without an end": (broken_mutex(acquire=[NO_EXPIRY]), Wrong.LITTER),
    "keeps what it releases": (broken_mutex(release=[KEPT, NO_WAKE]), Wrong.KEPT),
    "returns what is over": (mutex(ReturnsWhatIsOver), Wrong.STILLBORN),
    "ignores that it is taken, unfair": (
        broken_mutex(fair=False, acquire=[TAKEN_IS_IGNORED]), Wrong.MOVED, Wrong.MISTAKEN
    ),
}  # fmt: skip
"""By what each does wrong: the lock, and the failures that may be the first that is found."""


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_lock_is_found(name):
    target, *wrongs = BROKEN[name]
    what, seed, wrong = find(target)
    assert wrong in wrongs
    schedule, run = shortest(what, seed, wrong)
    assert len(schedule) <= 6, "the schedule is too long to read"
    assert run.has(wrong)


def test_a_living_holder_keeps_its_lease_in_the_simulation_too():
    """Otherwise every run would consist of lost leases and prove little."""
    run = run_schedule(Exploration(acts=frozenset()).experiment(seed=0))
    assert any("renew.lua" in str(event.what) for event in run.history)


def test_what_is_found_in_a_broken_lock_does_not_happen_to_the_real_one():
    for name in ("releases without comparing", "hands over to the dead", "grants without an end"):
        _, seed, _ = find(BROKEN[name][0])
        assert run_seeds(Exploration(), range(seed, seed + 1)).violations == []
