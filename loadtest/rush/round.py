"""One round: a sale is opened, its buyers meet twice, and the shop's books are compared."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from loadtest.address import RunImpossible
from loadtest.bounded import STEP, valid, within
from loadtest.checker import FAIL, UNKNOWN, Need, Verdict, not_judged, snapshot
from loadtest.checker.evidence import ALLOWED
from loadtest.files import RunFiles
from loadtest.history import Operation, Recorder, operations
from loadtest.judging import judge_run
from loadtest.report.headline import counted
from loadtest.rest import Figures, at_rest
from loadtest.run import Load, ShopUnderTest
from loadtest.rush.buyers import EACH, Buyers
from loadtest.rush.plan import Observer, Plan
from loadtest.shop import SOLD_OUT, Books, Level, Looks, Outcome, Refused, Shop, Sold, Unknown

ENOUGH = {Level.STOCK: {"ok": 1, "contested": 1}}
"""What a round must have seen: units sold and, where there are few, buyers refused or none left."""

LOOK = 1.0
"""Seconds between two looks at the books: orders may be written after they were answered."""

EXPIRES_WITHIN = ALLOWED["expiry_us"] / 1e6 + 1
"""Seconds after its deadline until which an order may be kept."""


class Round(ShopUnderTest[Plan]):
    """One round. Its steps raise `RunImpossible` if they failed or took too long.

    Args:
        shop: the adapter.
        plan: of the round.
        folder: a new one for the history and the books.
        observer: follows it.

    Attributes:
        buyers: who meet, when the sale is open.
        bought: the books at rest when every buyer had been answered.
        final: the books at rest at the end.
        verdict: on the answers and the books.
        calls: of all buyers.
    """

    buyers: Buyers
    bought: Books
    final: Books
    verdict: Verdict
    calls: list[Operation]

    def __init__(self, shop: Shop, plan: Plan, folder: Path, observer: Observer) -> None:
        self.plan, self.files = plan, RunFiles(folder)
        self._shop, self._observer = shop, observer
        self._recorder: Recorder | None = None
        self._gave_back = False

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
        return self.buyers.last

    @property
    def asked_again(self) -> int:
        """How often buyers asked again."""
        return self.buyers.repeats

    def count(self, kind: type[Sold] | type[Refused] | type[Unknown]) -> int:
        """Return how many buyers were left with this outcome."""
        return sum(isinstance(each, kind) for each in self.last)

    @property
    def left(self) -> int:
        """The units that are left although buyers were refused."""
        return max(0, self.bought.total - self.sold) if self.count(Refused) else 0

    @property
    def unknown(self) -> Counter[str]:
        """The answers to the last step that say neither sold nor refused, with how often."""
        return self.buyers.unknown

    @property
    def refused_otherwise(self) -> int:
        """How many buyers were refused in other words than “sold out”."""
        return sum(isinstance(each, Refused) and each.reason != SOLD_OUT for each in self.last)

    @property
    def look_command(self) -> str:
        """The adapter's command that shows the books of this round's sale; empty without one."""
        shop = self._shop
        return shop.look(self.buyers.sale) if isinstance(shop, Looks) else ""

    @property
    def problems(self) -> Counter[str]:
        """The steps of single buyers that failed, with how often."""
        return self.buyers.problems

    @property
    def cancelled(self) -> int:
        """How many orders were given back by their buyers."""
        return len(self.buyers.cancelled)

    @property
    def not_cancelled(self) -> int:
        """How many orders the shop refused to cancel."""
        return len(self.buyers.refused_back)

    @property
    def expired(self) -> int:
        """How many orders ran out of time."""
        return len(self.buyers.expired)

    @property
    def gives_back(self) -> bool:
        """Whether its orders are cancelled, or expire."""
        return self.plan.scene in (Level.CANCEL, Level.EXPIRY)

    @property
    def waited_for_carts(self) -> bool:
        """Whether units may have been held before the last step, so that no moment is known."""
        return any(each.op in ("cart", "prepare") for each in self.calls)

    def open(self, plan: Plan) -> None:
        """Open a sale, and make its buyers."""
        shop = self._shop
        size = f"{counted(plan.stock, 'unit')}, making {counted(plan.buyers, 'buyer')}"
        self._observer.step(f"opening a sale of {size}")
        sale = within(STEP, "opening a sale", lambda: valid(str, shop.open(plan.stock)))
        seconds = STEP + EACH * plan.buyers
        buyers = within(seconds, "making buyers", lambda: list(shop.buyers(sale, plan.buyers)))
        short = f"the shop made {len(buyers)} of {plan.buyers} buyers"
        if len(buyers) < 2:
            raise RunImpossible(short)
        self._recorder = Recorder(self.files.path / "rush.jsonl")
        self.buyers = Buyers(shop, plan, sale, buyers, self._recorder, self._observer)
        if len(buyers) < plan.buyers:
            self.buyers.problems[short] += 1

    def rest(self) -> bool:
        """Read the books until they do not change: when all is bought, and when units came back."""
        if self._gave_back:
            self.final = self._books()
        else:
            self.bought, self.final = self._books_when_bought()
        return True

    def ask_again(self) -> bool:
        """Give the units back, or let them come back, in the rounds that try it."""
        if not self.gives_back:
            return False
        if self.plan.scene is Level.CANCEL or self._holds_orders:
            # What was sold is judged before it is given back.
            during = snapshot.Header(time.monotonic_ns())
            path = self.files.path / "during-1.snapshot"
            snapshot.write(path, during, [self.buyers.item(self.bought)])
        if self.plan.scene is Level.CANCEL:
            self.buyers.cancel()
        else:
            self._expire()
        self._gave_back = True
        return True

    def read(self) -> None:
        """Write down the books, with who asked for each order."""
        self.close()
        rows = list(self.buyers.rows(self.bought, self.final))
        now = snapshot.Header(time.monotonic_ns(), clock=round(time.time() * 1e6))
        snapshot.write(self.files.final, now, rows)

    def close(self) -> None:
        """Close the history, if there is one."""
        if self._recorder is not None:
            self._recorder.close()

    def judge(self) -> Verdict:
        """Compare every answer with the books.

        Raises:
            RunImpossible: no answer says anything.
        """
        self._observer.step("comparing every answer with the books")
        self.verdict = judge_run(
            *(self.files, self._not_judged()),
            enough=self._enough(),
            allows_errors=True,
        )
        if self.outcome != FAIL and self.count(Unknown) == len(self.last):
            found = ", ".join(f"{n} × {what}" for what, n in self.unknown.most_common(4))
            raise RunImpossible(
                f"no answer to the last step says sold or refused: {found}; does the "
                "adapter send what the shop expects, and understand what it answers?"
            )
        if self.outcome == UNKNOWN and self.problems:
            self.verdict = replace(self.verdict, reason="; ".join(self.problems))
        self.calls = list(operations(*self.files.histories()))
        return self.verdict

    def _enough(self) -> Mapping[str, int]:
        """What the round must have seen for its verdict to mean something."""
        if self.plan.scene is Level.EXPIRY and not self._holds_orders:
            return {}  # every cart may have expired before its last step
        return {"ok": 1} if self.plan.enough else ENOUGH.get(self.plan.scene, {"ok": 1})

    @property
    def _holds_orders(self) -> bool:
        """Whether orders that are not paid hold units, for a time."""
        hold = self.buyers.hold
        return hold is not None and hold.orders

    def _books_when_bought(self) -> tuple[Books, Books]:
        """Read the books when every buyer has been answered: what was bought, and what is left.

        Orders that are held so briefly that they expire meanwhile are those of the first look.
        """
        buyers, hold = self.buyers, self.buyers.hold
        if hold is None or not hold.orders:
            found = self._books()
            return found, found
        seen = self._look()
        settles = buyers.first_answer + hold.seconds - time.monotonic()
        if settles > 2 * LOOK:
            seen = self._books(patience=min(STEP, settles))
        if self.plan.scene is Level.EXPIRY:
            return seen, seen
        final = self._books()
        if time.monotonic() > buyers.first_answer + hold.seconds:
            buyers.expired |= seen.orders.keys() - final.orders.keys()
        return Books(final.total, final.available, {**seen.orders, **final.orders}), final

    def _expire(self) -> None:
        """Let units come back; wait until all have, or should have for a while."""
        buyers, hold = self.buyers, self.buyers.hold
        assert hold is not None
        since = time.monotonic()
        if hold.orders:
            buyers.expire()
            since = max(time.monotonic(), buyers.last_answer + hold.seconds)
        buyers.expire_again()
        self._observer.step("waiting until what is held has expired")
        while time.monotonic() < since + EXPIRES_WITHIN and self._is_held(self._look()):
            time.sleep(LOOK)

    def _is_held(self, books: Books) -> bool:
        """Whether the books show units that should have come back."""
        if self._holds_orders:
            return bool(books.orders)
        left = 0 if books.available is None else books.available
        return books.available is not None and left + sum(books.orders.values()) < books.total

    def _look(self) -> Books:
        """Read the books once."""
        sale, books = self.buyers.sale, self._shop.books
        return within(STEP, "reading the books", lambda: valid(Books, books(sale)))

    def _books(self, patience: float = 0.0) -> Books:
        """Read the shop's own books until they do not change.

        With a patience in seconds, the last look counts when that is over.
        """
        self._observer.step("reading the shop's books until they do not change")
        found: list[Books] = []

        def look(since: float) -> Figures:
            now = self._look()
            found.append(now)
            return now.total, now.available or 0, hash(frozenset(now.orders.items()))

        if not at_rest(look, patience or STEP, LOOK) and not (patience and found):
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
        if self.plan.scene is Level.EXPIRY and not self._holds_orders:
            reasons["P16"] = "carts are held here, and not orders"
        if self.final.available is None:
            # What is left is then only what the orders leave.
            reasons["P2"] = "the shop keeps no figure of what is left"
        return reasons


class LastByte(Load):
    """The buyers of a round, whose requests are held back by a byte and released together.

    Args:
        played: the round.
    """

    def __init__(self, played: Round) -> None:
        self._round = played

    @contextmanager
    def acting(self) -> Iterator[None]:
        """Let the buyers meet; they are done when the block begins."""
        self._round.buyers.buy()
        yield

    def running(self) -> bool:
        """Return that nobody acts any more."""
        return False

    def wait(self) -> None:
        """Return: there is nothing to wait for."""
