"""Rush a shop: several rounds, the verdict, and the smallest round that shows what is broken."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Collection, Iterator
from dataclasses import replace
from functools import partial
from itertools import count
from pathlib import Path

from loadtest import open_files
from loadtest.address import RunImpossible, address_of
from loadtest.checker import FAIL
from loadtest.rush.limits import CannotJudge
from loadtest.rush.observer import NOBODY, Observer
from loadtest.rush.plan import Plan, Scene
from loadtest.rush.release import Release
from loadtest.rush.result import RushResult
from loadtest.rush.round import Round, play
from loadtest.shop import Level, Shop

SMALLER = ((1, 2), (1, 4), (1, 8), (2, 16), (4, 32))
"""Units and buyers of the rounds in which a violation is looked for again, each up to `TRIES`."""

TRIES = 3

TRIED = frozenset({Level.STOCK, Level.REPEATS, Level.VOUCHERS, Level.CARTS})
"""The levels that a rush puts to the test; a shop may offer more."""

SCENES = {Scene.STOCK: Level.STOCK, Scene.VOUCHERS: Level.VOUCHERS, Scene.CARTS: Level.CARTS}


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
    observer: Observer = NOBODY,
    after_round: Callable[[RushResult], None] = lambda _: None,
) -> RushResult:
    """Rush a shop and judge it; never raises what the shop or its adapter does wrong.

    Args:
        shop: the adapter.
        units: of the stock in each round; also how often a voucher may be used.
        buyers: of each round.
        rounds: of each level that a rush can try: stock, vouchers, carts.
        host: the shop's address, such as `http://127.0.0.1:8000`.
        release: how requests are sent together.
        folder: keeps the histories and the books; None: they are deleted.
        owned: the host may be loaded although it is not this machine.
        shrink: whether to look for the smallest round that is broken.
        levels: to try, of those that the shop offers.
        repeat: the command that repeats the rush, to be shown.
        observer: follows it.
        after_round: called after each round with the result so far.
    """
    untried = tuple(sorted(shop.levels - TRIED))
    result = RushResult(shop.name, shop.version, [], repeat=repeat, untried=untried)
    with tempfile.TemporaryDirectory() as temporary:
        try:
            plan = _plan(host, units, buyers, rounds, release, owned=owned)
            folders = _folders(folder or Path(temporary))
            scenes = [s for s, level in SCENES.items() if level in shop.levels and level in levels]
            planned = [replace(plan, scene=scene) for scene in scenes for _ in range(rounds)]
            began = time.monotonic()
            for number, each in enumerate(planned, start=1):
                where = partial(_where, number, planned, began, time.monotonic())
                played = play(shop, each, next(folders), observer.within(where))
                result.rounds.append(played)
                after_round(result)
            if shrink:
                result.smallest = _smallest(shop, result.rounds, folders, observer)
        except (CannotJudge, RunImpossible, OSError) as error:  # such as a folder in use
            result.reason = str(error)
    return result


def _plan(
    host: str, units: int, buyers: int, rounds: int, release: Release, *, owned: bool
) -> Plan:
    if units < 1:
        raise CannotJudge("a sale without stock shows nothing: take at least one unit")
    if buyers < 2 or rounds < 1:
        raise CannotJudge("a rush takes at least two buyers and one round")
    if problem := open_files.shortage(buyers, open_files.raise_limit()):
        raise CannotJudge(problem)
    return Plan(address_of(host, owned=owned), Scene.STOCK, units, buyers, release)


def _where(number: int, planned: list[Plan], first: float, this: float) -> str:
    """Which round it is, and how long it and the rest take, if they are like those before it.

    `first` and `this` are when the first and this round began.
    """
    about = ""
    if number > 1:
        end = this + (this - first) / (number - 1) * (len(planned) - number + 1)
        about = f", about {max(0.0, end - time.monotonic()):.0f} s left"
    return f"round {number} of {len(planned)} ({planned[number - 1].scene}{about})"


def _folders(folder: Path) -> Iterator[Path]:
    for number in count(1):
        path = folder / f"round-{number}"
        path.mkdir(parents=True)
        yield path


def _smallest(
    shop: Shop, rounds: list[Round], folders: Iterator[Path], observer: Observer
) -> Round | None:
    """The smallest broken round: one of the given, or a still smaller one that breaks as well."""
    broken = [each for each in rounds if each.outcome == FAIL]
    if not broken:
        return None
    first = broken[0]
    for units, buyers in SMALLER:
        if buyers >= first.plan.buyers:
            break
        for _ in range(TRIES):
            smaller = replace(first.plan, units=units, buyers=buyers)
            observer.step(f"looking for a smaller history: {buyers} buyers, {units} units")
            try:
                played = play(shop, smaller, next(folders))
            except CannotJudge:
                return first
            if played.outcome == FAIL:
                return played
    return first
