"""The sales of a run at our shop: opened, looked at, changed, restocked, and read at the end."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from http import HTTPStatus
from pathlib import Path
from typing import Any

from loadtest.ask_again import ask_again
from loadtest.checker import Verdict, snapshot
from loadtest.checker.judging import judge_run
from loadtest.checker.snapshot import Header, Item, Terms
from loadtest.files import RunFiles, take_tokens
from loadtest.full_shop import FullShop, ShopRefused
from loadtest.rest import Figures, at_rest
from loadtest.run import ShopUnderTest, Show
from loadtest.run_plan import RunPlan, open_sales
from loadtest.sale_changes import Restocks, Schedule, opening_of
from loadtest.sale_roles import MAIN, TIMED

OPENING, GATHERING, SELLING = "opening the sales", "gathering the buyers", "selling"
FOLLOWING_UP, ASKING_AGAIN = "waiting for the follow-up", "asking again"
READING, JUDGING = "reading the books", "judging"

USED = (
    "sale {} has purchases from before this run, which are not in its history. Choose a fresh sale "
    "to get a verdict."
)


class Sales(ShopUnderTest[RunPlan]):
    """The sales of one run.

    Args:
        shop: that sells.
        files: of the run.
        show: follows it.

    Attributes:
        plan: of the run, with the ids of its sales.
        sale: id of the main sale; empty until it is open.
        figures: of the main sale, at the last look that was answered.
        answers: whether the last look was answered.
        read_at: when the figures were read, in seconds on the monotonic clock.
        reason: why there is no verdict; empty if there may be one.
        opening: when the main sale opens, in seconds on the monotonic clock.
        patience: seconds without fewer follow-ups, after which the run is judged as it is.
        pause: seconds between two looks while the shop comes to rest.
    """

    plan: RunPlan
    patience = 120.0
    pause = 0.5

    def __init__(self, shop: FullShop, files: RunFiles, show: Show) -> None:
        self.shop, self.files, self.show = shop, files, show
        self.figures: dict[str, Any] = {}
        self.answers = True
        self.read_at = time.monotonic()
        self.reason = ""
        self.opening = 0.0
        self.sale = ""
        self._during = During(files)
        self._restocks: list[Restocks] = []
        self._opened: dict[str, Terms] = {}
        self._schedule: Schedule | None = None

    def open(self, plan: RunPlan) -> None:
        """Open the sales that the plan has no ids of, and look at the terms of all.

        Raises `ShopRefused`, but for a given sale that cannot be judged: buyers may come to it.
        """
        self.show.step(OPENING)
        is_fresh = not plan.sale
        self.plan = open_sales(self.shop, plan, plan.gathers_in)
        self.sale = self.plan.sale
        self.plan = replace(self.plan, levels=self.shop.full_levels)
        self.shop.further_sales = [*self.plan.further_sales.values()]
        try:
            self.figures = self.shop.figures(self.plan.sale)
            opened = self.plan.sales.items()
            self._opened = {role: self.shop.change(sale) for role, sale in opened}
        except ShopRefused as error:
            if is_fresh:
                raise
            self.reason = f"the shop shows no figures: {error}"
            return
        self.opening = opening_of(self._opened[MAIN])
        self.plan = self._described()
        if self.figures["purchases"]:
            self.reason = USED.format(self.plan.sale)

    @contextmanager
    def changing(self) -> Iterator[None]:
        """Take a sale through its changes, and restock the sales that have to last."""
        with ExitStack() as cleanup:
            if (opened := self._opened.get(TIMED)) is not None:
                change, repeats = self.shop.change, self.plan.lasts
                self._schedule = Schedule(opened, self.opening, change, repeats=repeats)
                cleanup.enter_context(self._schedule)
            for role, (units, most) in self.plan.restocks.items():
                sale, left = self.plan.sales[role], partial(self.left, role)
                restocks = Restocks(self.shop, sale, units, left, self.files.path, most=most)
                self._restocks.append(cleanup.enter_context(restocks))
            yield

    def look(self, *, plenty: bool) -> None:
        """Store the stock of this moment, which is judged as well."""
        for restocks in self._restocks:
            restocks.plenty = plenty
        since = time.monotonic() - self.opening
        self.show.step(SELLING if since >= 0 else GATHERING, since)
        if items := self.items():
            self._during.add(items, time.monotonic_ns())

    def items(self) -> list[Item]:
        """Read the stock of this moment; nothing if the shop does not answer."""
        return [item_of(self.figures)] if self.ask_figures() else []

    def rest(self) -> bool:
        """Wait until nothing changes any more: whether it is so.

        A busy machine may take long to follow up all orders, but it makes progress.
        """
        if not self._opened:  # it shows no books
            return False
        self.ask_figures()
        pending = self.figures.get("pending", 0)
        while not at_rest(self._books, self.patience, self.pause):
            before, pending = pending, self.figures.get("pending", 0)
            if pending >= before:
                return False
        return True

    def ask_again(self) -> bool:
        """Repeat some purchases under their old keys."""
        self.show.step(ASKING_AGAIN)
        ask_again(self.files, self.shop, self.plan.seed, take_tokens(self.files.path))
        return True

    def read(self) -> None:
        """Write the terms of the sales, the final snapshot, the ledger and the mails."""
        if not self._opened:
            return
        shop, sale, files = self.shop, self.plan.sale, self.files
        changed = self._schedule.rows[1:] if self._schedule else []
        rows = [*self._opened.values(), *changed]
        snapshot.write(files.terms, Header(time.monotonic_ns()), rows)
        tell = partial(self.show.step, READING)
        if refused := insist(shop.snapshot, sale, files.final, tell):
            self.reason = self.reason or f"no final read: {refused}"
        # Without the provider's ledger, P11 is unknown.
        insist(shop.ledger, sale, files.ledger, tell)
        refused = insist(shop.deliveries, sale, files.deliveries, tell)
        # The shop's mails go to another server, where nobody can read them.
        if refused is not None and refused.status == HTTPStatus.NOT_FOUND:
            self.plan = replace(self.plan, mails=False)

    def judge(self) -> Verdict:
        """Compare every answer with the shop's final state."""
        self.show.step(JUDGING)
        if self.reason:
            return Verdict(reason=self.reason)
        plan = self.plan
        return judge_run(self.files, plan.not_judged, enough=plan.enough, books=plan.books)

    @property
    def look_command(self) -> str:
        """The command by which anybody can see the books of the main sale."""
        return self.shop.look(self.plan.sale)

    def left(self, role: str) -> int | None:
        """Return the units available in a sale; None if that is not known."""
        return self.figures.get("available") if role == MAIN and self.answers else None

    def ask_figures(self) -> bool:
        """Read the figures once; return whether the shop answered."""
        try:
            self.figures = self.shop.figures(self.plan.sale)
            self.answers, self.read_at = True, time.monotonic()
        except ShopRefused:
            self.answers = False
        return self.answers

    def _described(self) -> RunPlan:
        """Return the plan with what the shop says of the main sale."""
        strategy = self.figures["strategy"]
        known = self.shop.strategies()
        fenced = any(described["fenced"] for described in known if described["name"] == strategy)
        return replace(self.plan, strategy=strategy, fenced=fenced, stock=self.figures["total"])

    def _books(self, since: float) -> Figures | None:
        """Look at what must come to rest, after so many seconds; see `at_rest`."""
        self.show.step(FOLLOWING_UP, since, self.figures.get("pending", 0))
        if not self.ask_figures() or self.figures["pending"]:
            return None
        names = ("purchases", "held", "confirmed", "available")
        return tuple(self.figures[name] for name in names)


def item_of(figures: dict[str, Any]) -> Item:
    """Read the stock that the figures show."""
    names = ("total", "available", "held", "confirmed", "ledger_sum", "fence")
    return Item(str(figures["item"]), **{name: figures[name] for name in names})


FINAL_READ = 60.0
"""Seconds to get a file, because the shop may be recovering from a fault."""

PAUSE = 1.0
"""Seconds between two tries."""


def insist(
    fetch: Callable[[str, Path], None], sale: str, path: Path, tell: Callable[[], None]
) -> ShopRefused | None:
    """Get a file once the shop answers; return the last refusal, None on success.

    `tell` is called before each try.
    """
    give_up = time.monotonic() + FINAL_READ
    while True:
        tell()
        try:
            fetch(sale, path)
        except ShopRefused as error:
            if error.status != HTTPStatus.NOT_FOUND and time.monotonic() < give_up:
                time.sleep(PAUSE)
                continue
            return error
        return None


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
    oversold = any(item.available < 0 or item.held + item.confirmed > item.total for item in items)
    unequal = any(_sum(item) != item.total or item.ledger_sum != item.available for item in items)
    return oversold, unequal


def _sum(item: Item) -> int:
    return item.available + item.held + item.confirmed
