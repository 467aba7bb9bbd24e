"""One round: a sale is opened, its buyers meet twice, and the shop's books are compared."""

from __future__ import annotations

import time
from contextlib import closing
from pathlib import Path

from loadtest.address import RunImpossible
from loadtest.bounded import STEP, valid, within
from loadtest.checker import FAIL, Need, Verdict, not_judged, snapshot
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
        bought: the books at rest when every buyer had been answered.
        final: the books at rest at the end.
        verdict: on the answers and the books.
        calls: of all buyers.
    """

    bought: Books
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
        """The units that were sold, by the shop's books; some may have been cancelled later."""
        return sum(self.bought.orders.values())

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
        return max(0, self.bought.total - self.sold) if self.count(Refused) else 0

    @property
    def unknown(self) -> str:
        """The answers to the last step that say neither sold nor refused; empty if none."""
        return ", ".join(f"{times} × {what}" for what, times in self._buyers.unknown.most_common(4))

    @property
    def refused_otherwise(self) -> int:
        """How many buyers were refused in other words than “sold out”."""
        return sum(isinstance(each, Refused) and each.reason != SOLD_OUT for each in self.last)

    @property
    def gives_back(self) -> bool:
        """Whether its orders are cancelled."""
        return self.plan.scene is Level.CANCEL

    @property
    def waited_for_carts(self) -> bool:
        """Whether units may have been held before the last step, so that no moment is known."""
        return any(each.op in ("cart", "prepare") for each in self.calls)

    def run(self) -> None:
        """Open a sale, let its buyers meet, and judge what the books say then."""
        self._buyers = self._open()
        with closing(self._buyers.recorder):
            self._buyers.buy()
            self.bought = self._books()
            if self.gives_back:
                # What was sold is judged before it is given back.
                during = snapshot.Header(time.monotonic_ns())
                path = self.files.path / "during-1.snapshot"
                snapshot.write(path, during, [self._buyers.item(self.bought)])
                self._buyers.cancel()
                self.final = self._books()
            else:
                self.final = self.bought
        rows = list(self._buyers.rows(self.bought, self.final))
        snapshot.write(self.files.final, snapshot.Header(time.monotonic_ns()), rows)
        self._observer.step("comparing every answer with the books")
        self.verdict = judge_run(
            *(self.files, self._not_judged()),
            enough=ENOUGH.get(self.plan.scene, {"ok": 1}) if not self.plan.enough else {"ok": 1},
            allows_errors=True,
        )
        if self.outcome != FAIL and self.count(Unknown) == len(self.last):
            raise RunImpossible(
                f"no answer to the last step says sold or refused: {self.unknown}; does the "
                "adapter send what the shop expects, and understand what it answers?"
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

    def _books(self) -> Books:
        """Read the shop's own books until they do not change."""
        self._observer.step("reading the shop's books until they do not change")
        found: list[Books] = []

        def look(since: float) -> Figures:
            sale, books = self._buyers.sale, self._shop.books
            now = within(STEP, "reading the books", lambda: valid(Books, books(sale)))
            found.append(now)
            return now.total, now.available or 0, hash(frozenset(now.orders.items()))

        if not at_rest(look, STEP, LOOK):
            raise RunImpossible(f"the books still change after {STEP:g} s")
        return found[-1]

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
        return reasons
