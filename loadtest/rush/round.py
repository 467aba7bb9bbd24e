"""One round: a sale is opened, its buyers meet twice, and the shop's books are compared."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from loadtest import adapter_sale
from loadtest.adapter_sale import AdapterSale
from loadtest.adapter_steps import STEP
from loadtest.checker import Verdict, snapshot
from loadtest.checker.evidence import ALLOWED
from loadtest.checker.report.headline import counted
from loadtest.files import RunFiles
from loadtest.history import Operation, Recorder, operations
from loadtest.run import Load
from loadtest.rush.buyers import RushBuyers
from loadtest.rush.plan import Observer, Plan
from loadtest.shop import SOLD_OUT, Books, Level, Refused, Shop

CONTESTED = {"ok": 1, "contested": 1}
"""What a round must have seen where units are few: some sold, and buyers refused or none left."""

EXPIRES_WITHIN = ALLOWED["expiry_us"] / 1e6 + 1
"""Seconds after its deadline until which an order may be kept."""


class Round(AdapterSale[Plan, RushBuyers]):
    """One round. Its steps raise `RunImpossible` if they failed or took too long.

    Args:
        shop: the adapter.
        plan: of the round.
        folder: a new one for the history and the books.
        observer: follows it.

    Attributes:
        calls: of all buyers.
    """

    calls: list[Operation]
    untried = "this round does not try it"

    def __init__(self, shop: Shop, plan: Plan, folder: Path, observer: Observer) -> None:
        super().__init__(shop, plan, RunFiles(folder))
        self._observer = observer
        self._gave_back = False

    def say(self, step: str) -> None:
        """Show what is done next."""
        self._observer.step(step)

    @property
    def outcome(self) -> str:
        """pass, fail or unknown."""
        return self.verdict.verdict

    @property
    def broken(self) -> list[str]:
        """The ids of the broken properties."""
        return [finding.id for finding in self.verdict.broken]

    @property
    def sold(self) -> int:
        """The units that were sold, by the shop's books; some may have been cancelled later."""
        return sum(self.bought.orders.values())

    @property
    def asked_again(self) -> int:
        """How often buyers asked again."""
        return self.buyers.repeats

    @property
    def left(self) -> int:
        """The units that are left although buyers were refused."""
        return max(0, self.bought.total - self.sold) if self.count(Refused) else 0

    @property
    def refused_otherwise(self) -> int:
        """How many buyers were refused in other words than “sold out”."""
        return sum(
            isinstance(outcome, Refused) and outcome.reason != SOLD_OUT for outcome in self.last
        )

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
        return any(call.op in ("cart", "prepare") for call in self.calls)

    def open(self, plan: Plan) -> None:
        """Open a sale, and make its buyers."""
        shop = self.shop
        size = f"{counted(plan.stock, 'unit')}, making {counted(plan.buyers, 'buyer')}"
        self.say(f"opening a sale of {size}")
        sale = self.open_sale(plan.stock)
        buyers = self.make_buyers(sale, plan.buyers)
        self.recorder = Recorder(self.files.path / "rush.jsonl")
        self.buyers = RushBuyers(
            shop,
            plan,
            sale,
            buyers,
            self.recorder,
            self._observer.call,
            observer=self._observer,
        )
        if len(buyers) < plan.buyers:
            self.problems[f"the shop made {len(buyers)} of {plan.buyers} buyers"] += 1

    def rest(self) -> bool:
        """Read the books until they do not change: when all is bought, and when units came back."""
        if self._gave_back:
            self.final = self.books_at_rest()
        else:
            self.bought, self.final = self._books_when_bought()
        return True

    def ask_again(self) -> bool:
        """Give the units back, or let them come back, in the rounds that try it."""
        if not self.gives_back:
            return False
        if self.plan.scene is Level.CANCEL or self.buyers.holds_orders:
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

    def judge(self) -> Verdict:
        """Compare every answer with the books, and keep the calls."""
        verdict = super().judge()
        self.calls = list(operations(*self.files.histories()))
        return verdict

    def how(self) -> dict[str, Any]:
        """Return what the round must have seen, and that errors are answers like others."""
        fought_for = self.plan.scene is Level.STOCK and not self.plan.enough
        enough = CONTESTED if fought_for else {"ok": 1}
        if self.plan.scene is Level.EXPIRY and not self.buyers.holds_orders:
            enough = {}  # every cart may have expired before its last step
        return {"enough": enough, "allows_errors": True}

    def _books_when_bought(self) -> tuple[Books, Books]:
        """Read the books when every buyer has been answered: what was bought, and what is left.

        Orders that are held so briefly that they expire meanwhile are those of the first look.
        """
        buyers, hold = self.buyers, self.buyers.hold
        if hold is None or not hold.orders:
            found = self.books_at_rest()
            return found, found
        seen = self.look_once()
        settles = buyers.first_answer + hold.seconds - time.monotonic()
        if settles > 2 * adapter_sale.LOOK:
            seen = self.books_at_rest(patience=min(STEP, settles))
        if self.plan.scene is Level.EXPIRY:
            return seen, seen
        final = self.books_at_rest()
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
        self.wait_for_expiry(since, EXPIRES_WITHIN)


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
