"""The search finds a broken production lock as soon as a script or a step is changed."""

from __future__ import annotations

from hashlib import sha1

import pytest

import locking.redis_lock
from course.simulator import production
from course.simulator.history import Wrong
from course.simulator.search import Exploration, run_seeds, shortest
from course.simulator.simulation import run_schedule
from locking.redis_lock import Grant, RedisLock, Script

pytestmark = [pytest.mark.long, pytest.mark.nightly]

BUDGET = 4_000  # schedules; the production lock survives more than a hundred thousand
STEP = 250

Edit = tuple[str, str]
Edits = dict[str, list[Edit]]


def changed(name: str, edits: list[Edit]) -> Script:
    """Return the script of that name with changes."""
    source = Script.load(name).source
    for old, new in edits:
        assert old in source, f"{name}.lua no longer says {old!r}: change this test too"
        source = source.replace(old, new)
    return Script(source, sha1(source.encode(), usedforsecurity=False).hexdigest())


def in_both(*edits: Edit) -> Edits:
    """Return changes of the code that an acquire and a release share."""
    return {"acquire": list(edits), "release": list(edits)}


NO_COMPARISON = [
    ("redis.call('GET', KEYS[1]) == ARGV[2] .. ':' .. ARGV[1] and ", ""),
    ("if belongs_to(redis.call('GET', LOCK), holder) then", "if true then"),
]
NO_MINT = ("math.max(last_fence() + 1, now_us)", "1")
NO_FIRST_MINT = ("math.max((last or 0) + 1, clock[1] * 1000000 + clock[2])", "1")
NO_LIVENESS = ("if alive_until and tonumber(alive_until) > now_ms then", "if true then")
NEWCOMERS_PASS = (
    "if redis.pcall('EXISTS', KEYS[1] .. ':queue') == 0 and (not last or tonumber(last)) then",
    "if true then",
)
NO_WAKE = ("soft('RPUSH', list, fence .. ':' .. digits(now_us) .. ':' .. lease_ms)", "")
LOST_IS_RENEWED = (
    "  return 0\nend",
    "  redis.call('SET', KEYS[1], '1:' .. ARGV[1], 'PX', ARGV[2])\n  return 1\nend",
)
NO_EXPIRY = ("ARGV[1], 'PX', ARGV[2])\n    return", "ARGV[1])\n    return")
KEPT = ("redis.call('DEL', KEYS[1])\n  return 1", "return 1")

BROKEN: dict[str, tuple[Edits, *tuple[Wrong, ...]]] = {
    "releases without comparing": (
        {"release": NO_COMPARISON}, Wrong.NOT_THEIRS, Wrong.MISTAKEN
    ),
    "mints no fence": (
        {"acquire": [NO_MINT, NO_FIRST_MINT], "release": [NO_MINT]}, Wrong.TOKEN
    ),
    "hands over to the dead": (in_both(NO_LIVENESS), Wrong.GHOST),
    "lets newcomers pass": (
        {"acquire": [NEWCOMERS_PASS]}, Wrong.ORDER, Wrong.ASLEEP, Wrong.KEPT
    ),
    "wakes nobody": (in_both(NO_WAKE), Wrong.ASLEEP),
    "renews what it lost": ({"renew": [LOST_IS_RENEWED]}, Wrong.MOVED, Wrong.MISTAKEN),
    "grants without an end": ({"acquire": [NO_EXPIRY]}, Wrong.LITTER),
    "keeps what it releases": ({"release": [KEPT, NO_WAKE]}, Wrong.KEPT),
}  # fmt: skip
"""By what each does wrong: the changes, and the failures that may be the first that is found."""


def break_it(monkeypatch: pytest.MonkeyPatch, edits: Edits) -> None:
    for name, one in edits.items():
        monkeypatch.setattr(locking.redis_lock, name.upper(), changed(name, one))


def find() -> tuple[Exploration, int, Wrong]:
    what = Exploration()
    for start in range(0, BUDGET, STEP):
        tally = run_seeds(what, range(start, start + STEP))
        if tally.violations:
            return what, *tally.violations[0]
    pytest.fail(f"the broken lock survived {BUDGET} schedules")


@pytest.mark.parametrize("name", BROKEN)
def test_search_finds_a_broken_lock(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    edits, *wrongs = BROKEN[name]
    break_it(monkeypatch, edits)
    what, seed, wrong = find()
    assert wrong in wrongs
    schedule, run = shortest(what, seed, wrong)
    assert len(schedule) <= 6, "the schedule is too long to read"
    assert run.has(wrong)
    monkeypatch.undo()
    assert run_seeds(Exploration(), range(seed, seed + 1)).violations == []


def test_search_finds_a_lease_that_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    class ReturnsWhatIsOver(RedisLock):
        def _wait_for_grant(self, holder: str, limit: float) -> Grant:
            grant = super()._wait_for_grant(holder, limit)
            return grant._replace(since=grant.since - self.seconds)

    monkeypatch.setattr(production, "RedisLock", ReturnsWhatIsOver)
    assert find()[2] == Wrong.STILLBORN


def test_living_holder_keeps_its_lease_in_the_simulation() -> None:
    """Otherwise every run would consist of lost leases and prove little."""
    run = run_schedule(Exploration(acts=frozenset()).experiment(seed=0))
    assert any("renew.lua" in str(event.what) for event in run.history)
