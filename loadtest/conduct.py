"""A proof's table of contents: open, load, break, rest, ask again, read, judge, report.

`manage.py prove`, its controls and the control room conduct a `lab.proof.run.Proof`,
which has the shop's processes at hand, and Locust with and without its page a
`loadtest.ui.run.PageRun`. A round of a rush, which any shop can have, comes to rest in the same way
(`loadtest.rush.round`).
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

from loadtest.checker import snapshot
from loadtest.checker.snapshot import Header, Item, Terms
from loadtest.files import RunFiles
from loadtest.rest import Figures, at_rest
from loadtest.roles import MAIN, TIMED
from loadtest.shops.flash_sale.demo import DemoShop, ShopRefused
from loadtest.steps import Restocks, RunPlan, Schedule, ask_again, opening_of


class SaleRun(ABC):
    """One run of our shop's buyers, from open sales to a verdict; subclasses make the buyers act.

    Attributes:
        plan: of the run, with the ids of its sales.
        shop: its API.
        files: of the run.
        figures: of the main sale, at the last look that was answered.
        answers: whether the last look was answered.
        read_at: when the figures were read, in seconds on the monotonic clock.
        reason: why there is no verdict; empty if there may be one.
        during: snapshots of the stock.
        restocks: of the sales that have to last.
        opening: when the main sale opens, in seconds on the monotonic clock.
    """

    # Seconds without fewer follow-ups, after which it is judged as it is; and between two looks.
    patience = 120.0
    pause: ClassVar[float] = 0.5

    def __init__(self, plan: RunPlan, shop: DemoShop, files: RunFiles) -> None:
        self.plan, self.shop, self.files = plan, shop, files
        self.figures: dict[str, Any] = {}
        self.answers = True
        self.read_at = time.monotonic()
        self.reason = ""
        self.during = During(files)
        self.restocks: list[Restocks] = []
        self.opening = 0.0
        self._opened: dict[str, Terms] = {}
        self._schedule: Schedule | None = None

    def run(self) -> None:
        """Open the run and conduct it."""
        self.open()
        self.conduct()

    def conduct(self) -> None:
        """Let buyers and faults at the shop, wait until it is at rest, judge it, and report."""
        # Faults end before the load does: buyers have to be served again after the last one.
        with self.load(), self.changes(), self.faults():
            self.watch()
        self.recover()
        if self.rest():
            self.ask_again()
            self.rest()
        self.read()
        self.judge()
        self.report()

    def open(self) -> None:
        """Look at the terms of the sales. Raises `ShopRefused`."""
        self._opened = {role: self.shop.change(sale) for role, sale in self.plan.sales.items()}
        self.opening = opening_of(self._opened[MAIN])

    def load(self) -> AbstractContextManager[None]:
        """Let the buyers act, unless they come by themselves; stop them on exit."""
        return nullcontext()

    @contextmanager
    def changes(self) -> Iterator[None]:
        """Take a sale through its changes, and restock the sales that have to last."""
        with ExitStack() as cleanup:
            if (opened := self._opened.get(TIMED)) is not None:
                change, repeats = self.shop.change, self.plan.lasts
                self._schedule = Schedule(opened, self.opening, change, repeats=repeats)
                cleanup.enter_context(self._schedule)
            for role, (units, most) in self.plan.restocks.items():
                sale, left = self.plan.sales[role], partial(self.left, role)
                restocks = Restocks(self.shop, sale, units, left, self.files.path, most=most)
                self.restocks.append(cleanup.enter_context(restocks))
            yield

    def faults(self) -> AbstractContextManager[None]:
        """Inject the planned faults; on exit, heal the last one."""
        return nullcontext()

    @abstractmethod
    def watch(self) -> None:
        """Follow the run until its load is over."""

    def recover(self) -> None:  # noqa: B027 - not every run can
        """Wait until every process that was broken serves again."""

    def rest(self) -> bool:
        """Wait until nothing changes any more: whether it is so.

        A busy machine may take long to follow up all orders, but it makes progress.
        """
        self.look()
        pending = self.figures.get("owed", 0)
        while not at_rest(self.books, self.patience, self.pause):
            before, pending = pending, self.figures.get("owed", 0)
            if pending >= before:
                return False
        return True

    def ask_again(self) -> None:
        """Ask for some keys once more."""
        ask_again(self.files, self.shop.address, self.plan.seed)

    def read(self) -> None:
        """Write the terms of the sales, the final snapshot, the ledger and the mails."""
        shop, sale, files = self.shop, self.plan.sale, self.files
        if self._opened:
            changed = self._schedule.rows[1:] if self._schedule else []
            rows = [*self._opened.values(), *changed]
            snapshot.write(files.terms, Header(time.monotonic_ns()), rows)
        if refused := shop.insist(shop.snapshot, sale, files.final):
            self.reason = self.reason or f"no final read: {refused}"
        # Without the provider's ledger, P11 is unknown.
        shop.insist(shop.ledger, sale, files.ledger)
        refused = shop.insist(shop.deliveries, sale, files.deliveries)
        # The shop's mails go to another server, where nobody can read them.
        if refused is not None and refused.status == 404:
            self.plan = replace(self.plan, mails=False)

    @abstractmethod
    def judge(self) -> None:
        """Compare every answer with the shop's final state."""

    @abstractmethod
    def report(self) -> None:
        """Write what was found."""

    def left(self, role: str) -> int | None:
        """Return the units available in a sale; None if that is not known."""
        return self.figures.get("available") if role == MAIN and self.answers else None

    def look(self) -> bool:
        """Read the figures once; return whether the shop answered."""
        try:
            self.figures = self.shop.figures(self.plan.sale)
            self.answers, self.read_at = True, time.monotonic()
        except ShopRefused:
            self.answers = False
        return self.answers

    def books(self, since: float) -> Figures | None:
        """Look at what must come to rest, after so many seconds; see `at_rest`."""
        if not self.look() or self.figures["owed"]:
            return None
        names = ("purchases", "held", "confirmed", "available")
        return tuple(self.figures[name] for name in names)


MAX_SNAPSHOTS = 400
"""Per run; when there are more, every second one is deleted and the rate is halved."""


class During:
    """Stores snapshots of items.

    Args:
        files: of the run.
    """

    def __init__(self, files: RunFiles) -> None:
        self._files = files
        self._taken = 0
        self._every = 1
        # The first snapshot of each way in which the books were wrong: the verdict needs it.
        self._wrong: dict[tuple[bool, bool], Path] = {}

    def add(self, items: Sequence[Item], at: int) -> None:
        """Store the items of a moment (ns of the monotonic clock), thinning out."""
        self._taken += 1
        path = self._files.path / f"during-{self._taken:06}.snapshot"
        wrong = _wrong(items)
        is_new = any(wrong) and wrong not in self._wrong
        if is_new:
            self._wrong[wrong] = path
        elif self._taken % self._every:
            return
        snapshot.write(path, Header(at), items)
        if len(kept := self._files.during()) > MAX_SNAPSHOTS:
            for old in kept[::2]:
                if old not in self._wrong.values():
                    old.unlink()
            self._every *= 2


def _wrong(items: Sequence[Item]) -> tuple[bool, bool]:
    """Whether more was sold than there is (P1), and whether the sums do not fit (P2)."""
    oversold = any(each.available < 0 or each.held + each.confirmed > each.total for each in items)
    unequal = any(_sum(each) != each.total or each.ledger_sum != each.available for each in items)
    return oversold, unequal


def _sum(item: Item) -> int:
    return item.available + item.held + item.confirmed
