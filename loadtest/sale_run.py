"""A run of the shop's buyers, as far as the shop is reached by HTTP."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from typing import Any

from loadtest.checker.snapshot import Terms
from loadtest.conduct import Books, Conductor
from loadtest.roles import MAIN, TIMED
from loadtest.shops.flash_sale.demo import DemoShop, ShopRefused
from loadtest.steps import During, Restocks, RunFiles, RunPlan, Schedule, opening_of


class SaleRun(Conductor):
    """One run in sales that are open; what makes the buyers act is added by its subclasses.

    Attributes:
        plan: of the run, with the ids of its sales.
        shop: its API.
        figures: of the main sale, at the last look that was answered.
        answers: whether the last look was answered.
        reason: why there is no verdict; empty if there may be one.
        during: snapshots of the stock.
        restocks: of the sales that have to last.
        opening: when the main sale opens, in seconds on the monotonic clock.
    """

    patience = 120.0

    def __init__(self, plan: RunPlan, shop: DemoShop, files: RunFiles) -> None:
        self.plan, self.shop, self.files = plan, shop, files
        self.figures: dict[str, Any] = {}
        self.answers = True
        self.reason = ""
        self.during = During(files)
        self.restocks: list[Restocks] = []
        self.opening = 0.0
        self._opened: dict[str, Terms] = {}
        self._schedule: Schedule | None = None

    def open(self) -> None:
        """Look at the terms of the sales. Raises `ShopRefused`."""
        self._opened = {role: self.shop.change(sale) for role, sale in self.plan.sales.items()}
        self.opening = opening_of(self._opened[MAIN])

    @contextmanager
    def load(self) -> Iterator[None]:
        """Take a sale through its changes."""
        opened = self._opened.get(TIMED)
        if opened is None:
            yield
            return
        change, repeats = self.shop.change, self.plan.lasts
        self._schedule = Schedule(opened, self.opening, change, repeats=repeats)
        with self._schedule:
            yield

    @contextmanager
    def faults(self) -> Iterator[None]:
        """Restock the sales that have to last."""
        with ExitStack() as cleanup:
            for role, (units, most) in self.plan.restocks.items():
                sale, left = self.plan.sales[role], partial(self.left, role)
                restocks = Restocks(self.shop, sale, units, left, self.files.path, most=most)
                self.restocks.append(cleanup.enter_context(restocks))
            yield

    def left(self, role: str) -> int | None:
        """Return the units available in a sale; None if that is not known."""
        return int(self.figures["available"]) if role == MAIN and self.answers else None

    def look(self) -> bool:
        """Read the figures once; return whether the shop answered."""
        try:
            self.figures = self.shop.figures(self.plan.sale)
            self.answers = True
        except ShopRefused:
            self.answers = False
        return self.answers

    def books(self, since: float) -> Books | None:
        """Look at the sale's figures and what is pending."""
        if not self.look():
            return None
        names = ("purchases", "held", "confirmed", "available")
        return Books(self.figures["owed"], tuple(self.figures[name] for name in names))

    def repeats(self) -> tuple[tuple[str, int], int]:
        """The shop's address, and the run's seed."""
        return self.shop.address, self.plan.seed

    def terms(self) -> list[Terms]:
        """The terms of the sales, and the changes of one of them."""
        changed = self._schedule.rows[1:] if self._schedule else []
        return [*self._opened.values(), *changed]

    def read(self) -> None:
        """Get the final snapshot, the ledger and the mails."""
        shop, sale, files = self.shop, self.plan.sale, self.files
        if refused := shop.insist(shop.snapshot, sale, files.final):
            self.reason = self.reason or f"no final read: {refused}"
        # Without the provider's ledger, P11 is unknown.
        shop.insist(shop.ledger, sale, files.ledger)
        refused = shop.insist(shop.deliveries, sale, files.deliveries)
        # The shop's mails go to another server, where nobody can read them.
        if refused is not None and refused.status == 404:
            self.plan = replace(self.plan, mails=False)
