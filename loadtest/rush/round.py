"""One round: a sale is opened, its buyers meet twice, and the shop's books are compared."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from loadtest.checker import FAIL, UNKNOWN, Need, Verdict, not_judged
from loadtest.conduct import Books as AtRest
from loadtest.conduct import Conductor
from loadtest.history import Operation, Recorder, operations
from loadtest.rush import books as final
from loadtest.rush.buyers import STEP, Buyers
from loadtest.rush.limits import CannotJudge, within
from loadtest.rush.observer import NOBODY, Observer
from loadtest.rush.plan import Plan, Scene
from loadtest.shop import SOLD_OUT, Books, Level, Outcome, Refused, Shop, Sold, Unknown
from loadtest.steps import RunFiles, judge_run

ENOUGH = {Scene.STOCK: {"ok": 1, "contested": 1}}
"""What a round must have seen: units sold and, where there are few, buyers refused or none left."""

LOOK = 1.0
"""Seconds between two looks at the books: orders may be written after they were answered."""


@dataclass(slots=True)
class Round:
    """What came of a round; `last` holds each buyer's last outcome, `folder` its files."""

    plan: Plan
    books: Books
    last: list[Outcome]
    verdict: Verdict | None
    reason: str
    calls: list[Operation]
    folder: Path
    repeats: int = 0

    @property
    def outcome(self) -> str:
        """pass, fail or unknown."""
        return self.verdict.verdict if self.verdict else UNKNOWN

    @property
    def sold(self) -> int:
        """The units that orders hold, by the shop's books."""
        return sum(self.books.orders.values())

    def count(self, kind: type[Sold] | type[Refused] | type[Unknown]) -> int:
        """Return how many buyers were left with this outcome."""
        return sum(isinstance(each, kind) for each in self.last)

    @property
    def left(self) -> int:
        """The units that are left although buyers were refused."""
        return max(0, self.books.total - self.sold) if self.count(Refused) else 0

    @property
    def broken(self) -> list[str]:
        """The ids of the broken properties."""
        findings = self.verdict.properties if self.verdict else []
        return [each.id for each in findings if each.verdict == FAIL]


def play(shop: Shop, plan: Plan, folder: Path, observer: Observer = NOBODY) -> Round:
    """Play one round.

    Args:
        shop: the adapter.
        plan: of the round.
        folder: a new one for the history and the books.
        observer: follows it.

    Raises:
        CannotJudge: a step failed or took too long.
    """
    conductor = _Conductor(shop, plan, folder, observer)
    conductor.run()
    return conductor.round


class _Conductor(Conductor):
    """One round, step by step; after `run`, its `round` is there."""

    round: Round
    patience, pause = STEP, LOOK

    def __init__(self, shop: Shop, plan: Plan, folder: Path, observer: Observer) -> None:
        self._shop, self._plan, self._observer = shop, plan, observer
        self.files = RunFiles(folder)

    def open(self) -> None:
        """Open a sale, and make its buyers."""
        shop, plan = self._shop, self._plan
        stock = plan.scene.units(plan.units, plan.buyers)
        self._observer.step(f"opening a sale of {stock:,} units, making {plan.buyers:,} buyers")
        sale = within(STEP, "opening a sale", lambda: shop.open(stock))
        buyers = within(STEP, "making buyers", lambda: list(shop.buyers(sale, plan.buyers)))
        if len(buyers) < plan.buyers:
            raise CannotJudge(f"the shop made {len(buyers)} of {plan.buyers} buyers")
        recorder = Recorder(self.files.path / "rush.jsonl")
        self._buyers = Buyers(shop, plan, sale, buyers, recorder, self._observer)

    @contextmanager
    def load(self) -> Iterator[None]:
        """Let the buyers meet."""
        try:
            self._buyers.run()
            yield
        finally:
            self._buyers.recorder.close()

    def rest(self) -> bool:
        """Wait until the books do not change. Raises `CannotJudge` if they still do."""
        self._observer.step("reading the shop's books until they do not change")
        if not super().rest():
            raise CannotJudge(f"the books still change after {STEP:g} s")
        return True

    def books(self, since: float) -> AtRest:
        """Read the shop's own books."""
        sale = self._buyers.sale
        self._books = now = within(STEP, "reading the books", lambda: self._shop.books(sale))
        return AtRest(0, (now.total, now.available or 0, hash(frozenset(now.orders.items()))))

    def read(self) -> None:
        """Write the books, and what buyers were told of them."""
        buyers, books = self._buyers, self._books
        final.write(self.files.final, buyers.sale, books, buyers.told(books), buyers.extra())

    def judge(self) -> None:
        """Compare every answer with the books."""
        plan, books, histories = self._plan, self._books, self.histories()
        self._observer.step("comparing every answer with the books")
        judged = judge_run(
            *(self.files, histories, self._not_judged()),
            enough=ENOUGH.get(plan.scene, {"ok": 1}),
            allows_errors=True,
        )
        self.round = Round(
            *(plan, books, self._buyers.last, judged.verdict, judged.reason),
            *(list(operations(*histories)), self.files.path),
            repeats=self._buyers.repeats,
        )

    def _not_judged(self) -> dict[str, str]:
        """The properties that this round says nothing about, and why not."""
        levels, scene = self._shop.levels, self._plan.scene
        tried = {Level.STOCK, Level.REPEATS, Level(scene.value)}
        has = [Need.BILLS] if scene is Scene.CARTS else []
        if Refused(SOLD_OUT) in self._buyers.last:
            has.append(Need.SOLD_OUT)
        reasons = not_judged(levels, has)
        others = not_judged(levels & tried, list(Need))
        reasons = {
            each: reasons.get(each, "this round does not try it") for each in others
        } | reasons
        if self._books.available is None:
            # What is left is then only what the orders leave.
            reasons["P2"] = "the shop keeps no figure of what is left"
        if scene is Scene.CARTS:
            # An answer need not say whether the unit that was added meanwhile is in the order.
            reasons |= dict.fromkeys(("P3", "P6"), "carts change while they are ordered")
        return reasons
