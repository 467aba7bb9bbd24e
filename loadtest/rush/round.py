"""One round: a sale is opened, its buyers meet twice, and the shop's books are compared."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from loadtest.checker import FAIL, UNKNOWN, Need, Verdict, not_judged
from loadtest.finished import Report
from loadtest.history import Operation, Recorder, operations
from loadtest.orchestrator import RunFiles, judge_run
from loadtest.rush import books as final
from loadtest.rush.buyers import STEP, Buyers
from loadtest.rush.limits import CannotJudge, within
from loadtest.rush.plan import Plan, Scene
from loadtest.shop import Books, Level, Outcome, Refused, Shop, Sold, Unknown

ENOUGH = {Scene.STOCK: {"ok": 1, "contested": 1}}
"""What a round must have seen: units sold and, where there are few, buyers refused or none left."""


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


def play(shop: Shop, plan: Plan, folder: Path, report: Report = lambda _: None) -> Round:
    """Play one round.

    Args:
        shop: the adapter.
        plan: of the round.
        folder: a new one for the history and the books.
        report: called with every call that is over.

    Raises:
        CannotJudge: a step failed or took too long.
    """
    stock = plan.scene.units(plan.units, plan.buyers)
    sale = within(STEP, "opening a sale", lambda: shop.open(stock))
    buyers = within(STEP, "making buyers", lambda: list(shop.buyers(sale, plan.buyers)))
    if len(buyers) < plan.buyers:
        raise CannotJudge(f"the shop made {len(buyers)} of {plan.buyers} buyers")
    files = RunFiles(folder)
    recorder = Recorder(folder / "rush.jsonl")
    try:
        played = Buyers(shop, plan, sale, buyers, recorder, report)
        played.run()
        books = played.rest()
        extra = played.extra()
    finally:
        recorder.close()
    final.write(files.final, sale, books, played.told(books), extra)
    judged = judge_run(
        *(files, files.histories(), _not_judged(shop, plan.scene, books)),
        enough=ENOUGH.get(plan.scene, {"ok": 1}),
        allows_errors=True,
    )
    calls = list(operations(*files.histories()))
    return Round(
        *(plan, books, played.last, judged.verdict, judged.reason, calls, folder),
        repeats=played.repeats,
    )


def _not_judged(shop: Shop, scene: Scene, books: Books) -> dict[str, str]:
    """The properties that this round says nothing about, and why not."""
    tried = {Level.STOCK, Level.REPEATS} | {Level(scene.value)}
    reasons = not_judged(shop.levels, [Need.BILLS] if scene is Scene.CARTS else [])
    others = not_judged(shop.levels & tried, list(Need))
    reasons = {each: reasons.get(each, "this round does not try it") for each in others} | reasons
    if books.available is None:
        reasons["P2"] = "the shop keeps no figure of what is left"
    return reasons
