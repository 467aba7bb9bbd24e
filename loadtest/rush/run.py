"""Rush a shop: several rounds, the verdict, and the smallest round that shows what is broken."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import count
from math import ceil
from pathlib import Path
from statistics import median

from loadtest.address import RunImpossible, address_of
from loadtest.checker import FAIL
from loadtest.checker.report.headline import counted
from loadtest.open_files import file_shortage, raise_file_limit
from loadtest.release import Release
from loadtest.run import Faults, Show, run
from loadtest.rush.plan import OFFERING, SCENES, Observer, Plan
from loadtest.rush.result import RushObserver, RushResult, violations
from loadtest.rush.round import LastByte, Round
from loadtest.shop import Level, Shop

SMALLER = ((1, 2), (1, 4), (1, 8), (2, 16), (4, 32))
"""Units and buyers of the rounds in which a violation is looked for again, each up to `TRIES`."""

TRIES = 3

TRIED = frozenset({*SCENES, Level.REPEATS})
"""The levels that a rush puts to the test; a shop may offer more."""

OFFERS = 150
"""Buyers for whom there is enough, over all rounds of a rush: of a shop that refuses one buyer in
thirty although it has stock, 150 buyers miss it once in 160 rushes. Where units are few, nearly all
refusals are true, and hide it."""

MOST_OFFERING = 5
"""Rounds with enough for everybody, at most."""

NOBODY = RushObserver()


def rush_shop(
    shop: Shop,
    units: int,
    buyers: int,
    rounds: int,
    *,
    host: str,
    release: Release = Release.LAST_BYTE,
    folder: Path | None = None,
    owned: bool = False,
    shrink: bool = True,
    levels: Collection[Level] = tuple(Level),
    repeat: str = "",
    observer: RushObserver = NOBODY,
    enough: bool = True,
) -> RushResult:
    """Rush a shop and judge it; never raises what the shop or its adapter does wrong.

    An interrupt ends the rounds; those that are over are judged.

    Args:
        shop: the adapter.
        units: of the stock in each round; also how often a voucher may be used.
        buyers: of each round.
        rounds: of each level that a rush can try: stock, vouchers, carts, cancel, expiry.
        host: the shop's address, such as `http://127.0.0.1:8000`.
        release: how requests are sent together.
        folder: keeps the histories and the books; None: they are deleted.
        owned: the host may be loaded although it is not this machine.
        shrink: whether to look for the smallest round that is broken.
        levels: to try, of those that the shop offers.
        repeat: the command that repeats the rush, to be shown.
        observer: follows it.
        enough: whether to play rounds of stock and cancel with a unit for every buyer, too: a
            refusal for want of stock is untrue there, and many orders are made and cancelled (see
            `OFFERS`).
    """
    untried = tuple(sorted(shop.levels - TRIED))
    result = RushResult(shop.name, shop.version, [], repeat=repeat, untried=untried)
    with tempfile.TemporaryDirectory() as temporary:
        try:
            plan = _plan(host, units, buyers, rounds, release, owned=owned)
            folders = _folders(folder or Path(temporary))
            offers = min(MOST_OFFERING, ceil(OFFERS / buyers))
            scenes = [scene for scene in SCENES if scene in shop.levels & set(levels)]
            planned = _in_turn(plan, scenes, rounds, offers if enough else 0)
            began = time.monotonic()
            for number, next_plan in enumerate(planned, start=1):
                where = partial(_where, number, planned, began, time.monotonic())
                result.rounds.append(_play(shop, next_plan, folders, observer.within(where)))
                observer.round(result)
            if shrink:
                result.smallest = _smallest(shop, result.rounds, folders, observer)
        except (RunImpossible, OSError) as error:  # such as a folder in use
            result.reason = str(error)
        except KeyboardInterrupt:
            result.stop()
    return result


def measure(
    shop: Shop, units: int, buyers: int, rounds: int, *, host: str, owned: bool = False
) -> Iterator[str]:
    """Rush an unguarded shop's stock in both ways of sending, a round of each in turn.

    Yields a table of what each way finds. The arguments are those of `rush_shop`. Raises
    `RunImpossible`.
    """
    _plan(host, units, buyers, rounds, Release.PLAIN, owned=owned)
    rush = partial(rush_shop, shop, units, buyers, 1, host=host, owned=owned)
    ways: dict[Release, list[RushResult]] = {release: [] for release in Release}
    for _ in range(rounds):
        for release, results in ways.items():
            results.append(rush(release=release, levels=(Level.STOCK,), shrink=False, enough=False))
            if reason := results[-1].reason:
                raise RunImpossible(reason)
    yield "| released | broken rounds | violations per round: median (least to most) |"
    yield "| --- | --- | --- |"
    for release, results in ways.items():
        found = [violations(played) for result in results for played in result.rounds]
        broken = sum(result.broken_rounds for result in results)
        spread = f"{median(found):g} ({min(found)} to {max(found)})"
        yield f"| {release} | {broken} of {len(found)} | {spread} |"


def _plan(
    host: str, units: int, buyers: int, rounds: int, release: Release, *, owned: bool
) -> Plan:
    if units < 1:
        raise RunImpossible("a sale without stock shows nothing: take at least one unit")
    if buyers < 2 or rounds < 1:
        raise RunImpossible("a rush takes at least two buyers and one round")
    if problem := file_shortage(buyers, raise_file_limit()):
        raise RunImpossible(problem)
    return Plan(address_of(host, owned=owned), Level.STOCK, units, buyers, release)


def _in_turn(plan: Plan, scenes: Sequence[Level], rounds: int, offers: int) -> list[Plan]:
    """Return the rounds: one of each kind, then the next of each kind.

    What is broken is found soon so, whichever scene shows it.

    Args:
        plan: what all of them share.
        scenes: to be played.
        rounds: of each.
        offers: rounds with a unit for every buyer, of each scene that has such rounds.
    """
    planned = []
    for number in range(max(rounds, offers)):
        for scene in scenes:
            if number < rounds:
                planned.append(replace(plan, scene=scene))
            if number < offers and scene in OFFERING:
                planned.append(replace(plan, scene=scene, enough=True))
    return planned


def _where(number: int, planned: list[Plan], first: float, this: float) -> str:
    """Which round it is, and how long it and the rest take, if they are like those before it.

    `first` and `this` are when the first and this round began.
    """
    about = ""
    if number > 1:
        end = this + (this - first) / (number - 1) * (len(planned) - number + 1)
        about = f", about {max(0.0, end - time.monotonic()):.0f} s left"
    return f"round {number} of {len(planned)} ({planned[number - 1].tried}{about})"


def _folders(folder: Path) -> Iterator[Path]:
    for number in count(1):
        path = folder / f"round-{number}"
        path.mkdir(parents=True)
        yield path


def _play(shop: Shop, plan: Plan, folders: Iterator[Path], observer: Observer) -> Round:
    played = Round(shop, plan, next(folders), observer)
    try:
        run(plan, played, LastByte(played), Faults(), Show())
    finally:
        played.close()
    return played


def _smallest(
    shop: Shop, rounds: list[Round], folders: Iterator[Path], observer: Observer
) -> Round | None:
    """The smallest broken round: one of the given, or a still smaller one that breaks as well."""
    broken = [played for played in rounds if played.outcome == FAIL]
    if not broken:
        return None
    first = next((played for played in broken if not played.plan.enough), broken[0])
    if first.plan.enough:  # fewer buyers show what is rare only more rarely
        return first
    for units, buyers in SMALLER:
        if buyers >= first.plan.buyers:
            break
        for _ in range(TRIES):
            size = f"{counted(buyers, 'buyer')}, {counted(units, 'unit')}"
            observer.step(f"looking for a smaller history: {size}")
            smaller = replace(first.plan, units=units, buyers=buyers)
            try:
                played = _play(shop, smaller, folders, NOBODY)
            except RunImpossible:
                return first
            if played.outcome == FAIL:
                return played
    return first
