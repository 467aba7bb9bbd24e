"""A sale of a shop that has an adapter, from its opening to the verdict, as a run sees it."""

from __future__ import annotations

import time
from abc import abstractmethod
from collections import Counter
from dataclasses import replace
from typing import Any, Generic, Protocol, TypeVar

from loadtest.adapter_steps import STEP, valid, within
from loadtest.address import RunImpossible
from loadtest.buyers import Buyers, Offer
from loadtest.checker import FAIL, UNKNOWN, Need, Verdict, not_judged, snapshot
from loadtest.checker.judging import judge_run
from loadtest.files import RunFiles
from loadtest.history import Recorder
from loadtest.rest import Figures, at_rest
from loadtest.run import ShopUnderTest
from loadtest.shop import SOLD_OUT, Books, Buyer, Level, Looks, Outcome, Refused, Shop, Unknown

EACH = 3.0
"""Further seconds per buyer, to make them."""

LOOK = 1.0
"""Seconds between two looks at the books: orders may be written after they were answered."""


class Sizes(Offer, Protocol):
    """What a plan says as well."""

    @property
    def buyers(self) -> int:
        """How many buyers there are at first."""


P = TypeVar("P", bound=Sizes)
B = TypeVar("B", bound=Buyers)


class AdapterSale(ShopUnderTest[P], Generic[P, B]):
    """One sale. Its steps raise `RunImpossible` if they failed or took too long.

    Args:
        shop: the adapter.
        plan: of the run.
        files: for the history and the books.

    Attributes:
        buyers: when the sale is open.
        bought: the books with every order that was bought, also if it was given back since.
        final: the books at rest at the end.
        verdict: on the answers and the books.
        recorder: of the history; None until the sale is open.
    """

    buyers: B
    bought: Books
    final: Books
    verdict: Verdict

    def __init__(self, shop: Shop, plan: P, files: RunFiles) -> None:
        self.plan, self.files = plan, files
        self.shop = shop
        self.recorder: Recorder | None = None

    @abstractmethod
    def say(self, step: str) -> None:
        """Show what is done next."""

    @property
    def last(self) -> list[Outcome]:
        """Each buyer's last outcome."""
        return self.buyers.last

    @property
    def unknown(self) -> Counter[str]:
        """The answers to the last step that say neither sold nor refused, with how often."""
        return self.buyers.unknown

    @property
    def problems(self) -> Counter[str]:
        """The steps of single buyers that failed, with how often."""
        return self.buyers.problems

    @property
    def look_command(self) -> str:
        """The adapter's command that shows the books of the sale; empty without one."""
        return self.shop.look(self.buyers.sale) if isinstance(self.shop, Looks) else ""

    def count(self, kind: type[Outcome]) -> int:
        """Return how many buyers were left with this outcome."""
        return sum(isinstance(outcome, kind) for outcome in self.last)

    def open_sale(self, units: int) -> str:
        """Put so many units on sale; return the sale's id."""
        return within(STEP, "opening a sale", lambda: valid(str, self.shop.open(units)))

    def make_buyers(self, sale: str, count: int) -> list[Buyer]:
        """Make buyers; the shop may make fewer, but for at least two."""
        make, seconds = self.shop.buyers, STEP + EACH * count
        buyers = within(seconds, "making buyers", lambda: list(make(sale, count)))
        if len(buyers) < min(count, 2):
            raise RunImpossible(f"the shop made {len(buyers)} of {count} buyers")
        return buyers

    def read(self) -> None:
        """Write down the books, with who asked for each order."""
        self.close()
        rows = list(self.buyers.rows(self.bought, self.final))
        now = snapshot.Header(time.monotonic_ns(), clock=round(time.time() * 1e6))
        snapshot.write(self.files.final, now, rows)

    def close(self) -> None:
        """Close the history, if there is one."""
        if self.recorder is not None:
            self.recorder.close()

    def judge(self) -> Verdict:
        """Compare every answer with the books.

        Raises:
            RunImpossible: no answer says anything.
        """
        self.say("comparing every answer with the books")
        found = judge_run(self.files, self.not_judged(), **self.how())
        self.verdict = self.checked(found)
        return self.verdict

    @abstractmethod
    def how(self) -> dict[str, Any]:
        """Return how it is to be judged: further arguments of the checker."""

    def checked(self, verdict: Verdict) -> Verdict:
        """Return a verdict with the reason for what it does not know.

        Raises:
            RunImpossible: no answer says anything.
        """
        if verdict.verdict != FAIL and (reason := self.not_understood()):
            raise RunImpossible(reason)
        if verdict.verdict == UNKNOWN and self.problems:
            return replace(verdict, reason="; ".join(self.problems))
        return verdict

    def not_understood(self) -> str:
        """Say why no answer to a last step says sold or refused; empty if one does."""
        if self.count(Unknown) < len(self.last):
            return ""
        found = ", ".join(f"{n} × {what}" for what, n in self.unknown.most_common(4))
        return (
            f"no answer to the last step says sold or refused: {found or 'there is none'}; does "
            "the adapter send what the shop expects, and understand what it answers?"
        )

    def not_judged(self) -> dict[str, str]:
        """Return the properties that the run says nothing about, and why not."""
        levels, tries = self.shop.levels, self.plan.tries
        has = [Need.BILLS] if Level.CARTS in tries else []
        if Refused(SOLD_OUT) in self.last:
            has.append(Need.SOLD_OUT)
        untried = not_judged(levels & tries, list(Need))
        reasons = dict.fromkeys(untried, self.untried) | not_judged(levels, has)
        if Level.EXPIRY in tries and not self.buyers.holds_orders:
            reasons["P16"] = "carts are held here, and not orders"
        if self.final.available is None:
            # What is left is then only what the orders leave.
            reasons["P2"] = "the shop keeps no figure of what is left"
        return reasons

    untried = "this run does not try it"
    """Why a level that the shop offers was not put to the test."""

    def look_once(self) -> Books:
        """Read the books once."""
        sale, books = self.buyers.sale, self.shop.books
        return within(STEP, "reading the books", lambda: valid(Books, books(sale)))

    def books_at_rest(self, patience: float = 0.0) -> Books:
        """Read the shop's own books until they do not change.

        With a patience in seconds, the last look counts when that is over.
        """
        self.say("reading the shop's books until they do not change")
        found: list[Books] = []

        def look(since: float) -> Figures:
            now = self.look_once()
            found.append(now)
            return now.total, now.available or 0, hash(frozenset(now.orders.items()))

        if not at_rest(look, patience or STEP, LOOK) and not (patience and found):
            raise RunImpossible(f"the books still change after {STEP:g} s")
        return found[-1]

    def wait_for_expiry(self, since: float, most: float) -> None:
        """Wait until what is held has come back, or should have for so many seconds.

        Args:
            since: when the last of it had to come back, in seconds of the monotonic clock.
            most: seconds after that.
        """
        self.say("waiting until what is held has expired")
        while time.monotonic() < since + most and self._is_held(self.look_once()):
            time.sleep(LOOK)

    def _is_held(self, books: Books) -> bool:
        """Whether the books show units that should have come back."""
        if self.buyers.holds_orders:
            return bool(books.orders)
        left = 0 if books.available is None else books.available
        return books.available is not None and left + sum(books.orders.values()) < books.total
