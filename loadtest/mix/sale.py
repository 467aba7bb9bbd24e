"""The sale of a run of a mix: opened, watched by what buyers are answered, and read at the end."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, nullcontext, suppress
from dataclasses import replace
from functools import partial
from random import Random
from typing import Any, cast

from loadtest.adapter_sale import AdapterSale
from loadtest.adapter_steps import STEP, valid, within
from loadtest.address import RunImpossible, address_of
from loadtest.buyers import remarks_on
from loadtest.calls import Report
from loadtest.checker import Verdict, not_judged, snapshot
from loadtest.checker.evidence import ALLOWED
from loadtest.checker.report.document import Unseen
from loadtest.checker.report.headline import counted
from loadtest.client import Connection
from loadtest.files import RunFiles
from loadtest.history import Recorder
from loadtest.mix.behaviours import LONGEST, Behaviour, played, tried
from loadtest.mix.buyers import ANSWER, LeftOut, MixBuyers, PacedBuyer
from loadtest.mix.plan import MixPlan
from loadtest.mix.users import AdapterUsers
from loadtest.release import Address, together
from loadtest.run import Show
from loadtest.sale_changes import InBackground
from loadtest.sales import (
    ASKING_AGAIN,
    FOLLOWING_UP,
    GATHERING,
    OPENING,
    READING,
    SELLING,
    During,
)
from loadtest.shop import SOLD_OUT, Books, Expires, Hold, Level, Refused, Shop, Vouchers

EXPIRES_WITHIN = ALLOWED["expiry_us"] / 1e6 + 1
"""Seconds after its deadline until which an order may be kept."""

EACH = 100
"""Buyers who repeat their last step when all is at rest, at most."""

AT_ONCE = 8

EXPIRE_EVERY = 1.0
"""Seconds between two requests of the owner that end what is out of time."""


class MixSale(AdapterSale[MixPlan, MixBuyers]):
    """The sale of one run.

    Args:
        shop: the adapter.
        plan: of the run.
        files: for the history and the books.
        show: follows it.

    Attributes:
        address: of the shop.
        behaviours: what the buyers do, by weight; known when the sale is open.
        figures: by what buyers have been answered; at the end by the shop's books.
        read_at: when the figures were taken, in seconds on the monotonic clock.
        reason: why there is no verdict; empty if there may be one.
    """

    untried = "the buyers of this run do not try it"

    def __init__(self, shop: Shop, plan: MixPlan, files: RunFiles, show: Show) -> None:
        super().__init__(shop, plan, files)
        self.address: Address = address_of(plan.host, owned=plan.owned)
        self.behaviours: dict[Behaviour, int] = {}
        self.figures: dict[str, Any] = {}
        self.read_at = time.monotonic()
        self.reason = ""
        self._show = show
        self._opened = 0.0
        self._during = During(files)
        self._has_asked_again = False

    def say(self, step: str) -> None:
        """Do nothing: `step` of the show has names of its own."""

    def open(self, plan: MixPlan) -> None:
        """Open the sale, and make the buyers of the first moment."""
        self._show.step(OPENING)
        shop = self.shop
        sale = self.open_sale(plan.stock)
        hold: Hold | None = None
        if Level.EXPIRY in shop.levels:
            ask = partial(cast(Expires, shop).hold, sale)
            hold = within(STEP, "asking how long units are held", lambda: valid(Hold, ask()))
        self.behaviours = played(shop.levels, plan.weights, hold)
        tries = tried(self.behaviours) & shop.levels
        self.plan = replace(
            plan, sale=sale, tries=tries, not_judged=not_judged(shop.levels & tries, [])
        )
        made = self.make_buyers(sale, plan.first)
        if len(made) < plan.first:
            raise RunImpossible(
                f"the shop made {len(made)} of {plan.first} buyers: take fewer --users or --rounds"
            )
        self.recorder = Recorder(self.files.path / "buyers.jsonl")
        self.buyers = MixBuyers(
            shop,
            self.plan,
            sale,
            [],
            self.recorder,
            _tell_nobody,
            hold=hold,
            more=partial(self.make_buyers, sale),
        )
        self.buyers.add(made)
        if Level.VOUCHERS in tries:
            make = partial(cast(Vouchers, shop).voucher, sale, plan.uses)
            self.buyers.voucher = within(STEP, "making a voucher", lambda: valid(str, make()))
        self._opened = time.monotonic()
        self._take_figures()

    def users(self, run: str, report: Report) -> AdapterUsers:
        """Return who plays the buyers.

        Args:
            run: its name.
            report: called with every call that is over.
        """
        assert self.recorder is not None
        users = AdapterUsers(
            self.plan,
            self.address,
            self.buyers,
            self.behaviours,
            recorder=self.recorder,
            opens_at=time.monotonic(),
            run=run,
        )
        self.buyers.report = users.tally.counting(report)
        return users

    @contextmanager
    def changing(self) -> Iterator[None]:
        """End what is out of time again and again, where the shop does not do it by itself."""
        ends = Level.EXPIRY in self.plan.tries and bool(self.buyers.expire_requests())
        with _Expiry(self._expire) if ends else nullcontext():
            yield

    def look(self, *, plenty: bool) -> None:
        """Store what buyers have been promised at this moment, which is judged as well."""
        has_begun = self.buyers.played > 0
        self._show.step(SELLING if has_begun else GATHERING, time.monotonic() - self._opened)
        self._take_figures()
        if has_begun:
            self._during.add([self._promised(self.buyers.promised)], time.monotonic_ns())

    def rest(self) -> bool:
        """Wait until the books do not change, and what is held has expired where that is tried."""
        self._show.step(FOLLOWING_UP, 0.0)
        buyers = self.buyers
        if Level.EXPIRY in self.plan.tries and not self._has_asked_again:
            assert buyers.hold is not None
            time.sleep(buyers.hold.seconds)
            self._expire()
            self.wait_for_expiry(time.monotonic(), EXPIRES_WITHIN)
        self.final = self.books_at_rest()
        buyers.expired = buyers.out_of_time(self.final)
        back = buyers.cancelled | buyers.expired
        gone = {order: units for order, units in buyers.sold.items() if order in back}
        final = self.final
        self.bought = Books(final.total, final.available, {**gone, **final.orders})
        return True

    def ask_again(self) -> bool:
        """Repeat some last steps, where the shop knows repeats."""
        self._has_asked_again = True
        if Level.REPEATS not in self.plan.tries:
            return False
        self._show.step(ASKING_AGAIN)
        having = self.buyers.to_repeat
        chosen = Random(f"{self.plan.seed}/again").sample(having, min(EACH, len(having)))
        answered, self.buyers.report = self.buyers.last_answer, _tell_nobody
        with ThreadPoolExecutor(AT_ONCE) as pool:
            list(pool.map(self._ask_again, chosen))
        self.buyers.last_answer = answered  # from which the deadlines count
        return bool(chosen)

    def read(self) -> None:
        """Write down the most that was promised, and the books; describe the run."""
        self._show.step(READING)
        most = self._promised(self.buyers.most)
        if most.confirmed > self.plan.stock:
            path = self.files.path / "during-most.snapshot"
            snapshot.write(path, snapshot.Header(self.buyers.most_at), [most])
        super().read()
        self._take_figures()
        self.plan = replace(
            self.plan,
            not_judged=self.not_judged(),
            doubt=self._doubt(),
            came=self.buyers.played,
            remarks=[*self._remarks()],
            left_open=[*self._left_open()],
            more={"not_seen": [unseen.to_json() for unseen in self._unseen()]},
        )

    def how(self) -> dict[str, Any]:
        """Return how it is to be judged."""
        return self.plan.how

    def not_judged(self) -> dict[str, str]:
        """Return the properties that the run says nothing about, and why not."""
        reasons = super().not_judged()
        if self.buyers.voucher and not self.buyers.used:
            reasons["P22"] = "no buyer with the voucher came before the stock was gone"
        if Level.CARTS in self.plan.tries and not (self.buyers.adding and self.final.orders):
            reasons["P23"] = "no order is left, or no cart changed while it was ordered"
        return reasons

    def judge(self) -> Verdict:
        """Compare every answer with the books."""
        if self.reason:
            return Verdict(reason=self.reason)
        return super().judge()

    # --- as the run goes on -------------------------------------------------------------------

    def _promised(self, units: int) -> snapshot.Item:
        """Return the stock as it is by what buyers have been promised."""
        left = self.plan.stock - units
        return snapshot.Item(self.plan.sale, self.plan.stock, left, 0, units, left)

    def _take_figures(self) -> None:
        """Take the figures by what buyers have been answered, and at the end by the books."""
        stock, promised = self.plan.stock, self.buyers.promised
        total, left = stock, max(0, stock - promised)
        if hasattr(self, "final"):
            total, promised = self.final.total, sum(self.final.orders.values())
            left = (
                max(0, total - promised) if self.final.available is None else self.final.available
            )
        self.figures = {
            "total": total,
            "available": left,
            "confirmed": promised,
            "oversold": max(0, promised - total, self.buyers.most - stock),
            "purchases": len(self.buyers.sold),
        }
        self.read_at = time.monotonic()

    def _expire(self) -> None:
        """Let the shop end what is out of time, asked twice at one moment."""
        if requests := self.buyers.expire_requests():
            together(self.address, requests, timeout=STEP)

    def _ask_again(self, number: int) -> None:
        with closing(Connection(*self.address, timeout=ANSWER)) as connection, suppress(LeftOut):
            PacedBuyer(self.buyers, number, connection).press_when_at_rest()

    # --- what the verdict says besides --------------------------------------------------------

    def _doubt(self) -> str:
        """Why a run that broke nothing says nothing; empty if it does."""
        return self.not_understood() if self.buyers.played else "no buyer came before the end"

    def _remarks(self) -> Iterator[str]:
        """Yield what the reader should know besides the properties."""
        if untried := self.shop.levels - self.plan.tries:
            names = ", ".join(sorted(untried))
            yield f"Levels not tried: {names}: the buyers of this run do nothing of it."
        hold = self.buyers.hold
        if Level.EXPIRY in untried and hold is not None and hold.seconds > LONGEST:
            yield f"Units are held for {hold.seconds:g} s; buyers wait for {LONGEST:g} s at most."
        yield from remarks_on(self.unknown, self.problems)

    def _unseen(self) -> Iterator[Unseen]:
        """Yield what the run could have missed, although it judged it."""
        buyers = self.buyers
        if served := len(buyers.sold):
            yield Unseen("an answered order that is lost", served)
        if refused := sum(outcome == Refused(SOLD_OUT) for outcome in self.last):
            yield Unseen("an untrue “sold out”", refused, f"{counted(refused, 'buyer')} heard it")
        if cancelled := len(buyers.cancelled):
            yield Unseen("a cancellation that goes wrong", cancelled)
        if expired := len(buyers.expired):
            yield Unseen("an expiry that goes wrong", expired)

    def _left_open(self) -> Iterator[str]:
        """Yield what the run could not have seen at all."""
        left = self.final.total - sum(self.final.orders.values())
        if left > 0 and not self.count(Refused):
            yield "an oversell: units were left, and nobody was refused"
        if refused := len(self.buyers.refused_back):
            yield f"what cancelling does to {counted(refused, 'order')}: the shop refused it"
        if self.buyers.cancelled and self.final.available is None:
            yield "whether cancelled units came back: the shop keeps no figure of what is left"


def _tell_nobody(_: object) -> None:
    """Ignore a call that is over."""


class _Expiry(InBackground):
    """Lets a shop end what is out of time, again and again until the end of the block."""

    def __init__(self, expire: Callable[[], None]) -> None:
        super().__init__("expiry")
        self._expire = expire

    def _run(self) -> None:
        while not self._end.wait(EXPIRE_EVERY):
            self._expire()
