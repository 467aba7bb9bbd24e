"""One round: a sale is opened, its buyers meet twice, and the shop's books are compared."""

from __future__ import annotations

import time
from contextlib import closing
from pathlib import Path

from loadtest.address import RunImpossible
from loadtest.bounded import STEP, valid, within
from loadtest.checker import Need, Verdict, not_judged, snapshot
from loadtest.conduct import Figures, at_rest
from loadtest.files import RunFiles
from loadtest.history import Operation, Recorder, operations
from loadtest.report.headline import counted
from loadtest.rush.buyers import EACH, Buyers
from loadtest.rush.plan import Observer, Plan
from loadtest.shop import SOLD_OUT, Books, Level, Outcome, Refused, Shop, Sold, Unknown
from loadtest.steps import judge_run

ENOUGH = {Level.STOCK: {"ok": 1, "contested": 1}}
"""What a round must have seen: units sold and, where there are few, buyers refused or none left."""

LOOK = 1.0
"""Seconds between two looks at the books: orders may be written after they were answered."""


class Round:
    """One round. Its `run` raises `RunImpossible` if a step failed or took too long.

    Args:
        shop: the adapter.
        plan: of the round.
        folder: a new one for the history and the books.
        observer: follows it.

    Attributes:
        final: the books at rest.
        verdict: on the answers and the books.
        calls: of all buyers.
    """

    final: Books
    verdict: Verdict
    calls: list[Operation]

    def __init__(self, shop: Shop, plan: Plan, folder: Path, observer: Observer) -> None:
        self.plan, self.files = plan, RunFiles(folder)
        self._shop, self._observer = shop, observer

    @property
    def outcome(self) -> str:
        """pass, fail or unknown."""
        return self.verdict.verdict

    @property
    def broken(self) -> list[str]:
        """The ids of the broken properties."""
        return [each.id for each in self.verdict.broken]

    @property
    def sold(self) -> int:
        """The units that orders hold, by the shop's books."""
        return sum(self.final.orders.values())

    @property
    def last(self) -> list[Outcome]:
        """Each buyer's last outcome."""
        return self._buyers.last

    @property
    def asked_again(self) -> int:
        """How often buyers asked again."""
        return self._buyers.repeats

    def count(self, kind: type[Sold] | type[Refused] | type[Unknown]) -> int:
        """Return how many buyers were left with this outcome."""
        return sum(isinstance(each, kind) for each in self.last)

    @property
    def left(self) -> int:
        """The units that are left although buyers were refused."""
        return max(0, self.final.total - self.sold) if self.count(Refused) else 0

    def run(self) -> None:
        """Open a sale, let its buyers meet, and judge what the books say then."""
        self._buyers = self._open()
        with closing(self._buyers.recorder):
            self._buyers.run()
        self._observer.step("reading the shop's books until they do not change")
        if not at_rest(self._look, STEP, LOOK):
            raise RunImpossible(f"the books still change after {STEP:g} s")
        rows = list(self._buyers.rows(self.final))
        snapshot.write(self.files.final, snapshot.Header(time.monotonic_ns()), rows)
        self._observer.step("comparing every answer with the books")
        self.verdict = judge_run(
            *(self.files, self._not_judged()),
            enough=ENOUGH.get(self.plan.scene, {"ok": 1}),
            allows_errors=True,
        )
        self.calls = list(operations(*self.files.histories()))

    def _open(self) -> Buyers:
        """Open a sale, and make its buyers."""
        shop, plan = self._shop, self.plan
        size = f"{counted(plan.stock, 'unit')}, making {counted(plan.buyers, 'buyer')}"
        self._observer.step(f"opening a sale of {size}")
        sale = within(STEP, "opening a sale", lambda: valid(str, shop.open(plan.stock)))
        seconds = STEP + EACH * plan.buyers
        buyers = within(seconds, "making buyers", lambda: list(shop.buyers(sale, plan.buyers)))
        if len(buyers) < plan.buyers:
            raise RunImpossible(f"the shop made {len(buyers)} of {plan.buyers} buyers")
        recorder = Recorder(self.files.path / "rush.jsonl")
        return Buyers(shop, plan, sale, buyers, recorder, self._observer)

    def _look(self, since: float) -> Figures:
        """Read the shop's own books."""
        sale = self._buyers.sale
        books = self._shop.books
        self.final = now = within(STEP, "reading the books", lambda: valid(Books, books(sale)))
        return now.total, now.available or 0, hash(frozenset(now.orders.items()))

    def _not_judged(self) -> dict[str, str]:
        """The properties that this round says nothing about, and why not."""
        levels, scene = self._shop.levels, self.plan.scene
        tried = {Level.STOCK, Level.REPEATS, scene}
        has = [Need.BILLS] if scene is Level.CARTS else []
        if Refused(SOLD_OUT) in self.last:
            has.append(Need.SOLD_OUT)
        others = dict.fromkeys(not_judged(levels & tried, list(Need)), "this round does not try it")
        reasons = others | not_judged(levels, has)
        if self.final.available is None:
            # What is left is then only what the orders leave.
            reasons["P2"] = "the shop keeps no figure of what is left"
        if scene is Level.CARTS:
            # An answer need not say whether the unit that was added meanwhile is in the order.
            reasons |= dict.fromkeys(("P3", "P6"), "carts change while they are ordered")
        if scene is Level.CANCEL:
            reasons |= dict.fromkeys(("P3", "P6", "P7", "P8"), "orders are cancelled meanwhile")
        return reasons
