"""What a run is to show: its sales, the properties that apply, and the command that repeats it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from loadtest.checker import ENOUGH, Need, not_judged
from loadtest.checker.report import Description
from loadtest.checker.report.headline import counted
from loadtest.faults import FAULTS
from loadtest.full_shop import FullShop
from loadtest.sale_roles import MAIN, SaleTerms, roles_for, terms_of
from loadtest.shop import Level

# Mixes whose buyers fill carts, and ask for orders of others.
WITH_CARTS = frozenset({"carts", "all"})
WITH_PEEPERS = frozenset({"peepers", "all"})
WITH_DRAWS = frozenset({"entrants", "all"})
# Mixes that show nothing of money unless some of it was taken.
WITH_PAYMENTS = frozenset({"payers", "refunders", "walkers", "parts", "peepers", "all"})


AFTERWARDS = 12.0
"""Seconds that the buyers stay after the last fault: until the shop must have sold again on a slow
machine too, and until there are enough answers to judge the rate of good ones."""

# In a sale that does not have to last, how often it is restocked all the same while buyers come
# back, and with how much of its stock: who is refused then is refused on an old hint.
REFILLS, REFILL = 2, 0.25


OPERATED = ("P7", "P8", "P12", "P15")
"""Properties that say nothing where the sales are changed and the shop is broken by hand."""

BY_HAND = "somebody may have paused or restocked the sale, or broken the shop"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunPlan:
    """One run: what is sold to whom, what is broken meanwhile, and what it can be judged by.

    Attributes:
        buyers: at once.
        seed: repeats the buyers' behaviour and the faults.
        stock: units.
        limit: units per buyer.
        strategy: how the sale is sold.
        mix: which buyers come, see `loadtest/scenarios`.
        arrivals: buyers per second, however slow the shop is (an open loop); 0: all come at once
            and wait for their answers (a closed loop).
        processes: load-generating processes.
        minutes: that the sale lasts, restocked whenever it has run out; 0: until all buyers have
            finished, or every fault was injected so often as `times` says.
        faults: names of the faults to inject.
        left_out: names of faults that cannot be injected here, and what they lack.
        times: how often each fault is injected, unless the run lasts for `minutes`.
        compose: folder of docker/ with the servers that fail over; empty: no shop in containers.
        fenced: whether the strategy uses fencing tokens.
        mails: whether the mails that the shop sends are received.
        levels: that the shop offers.
        sale: id of the main sale; empty where it is not open yet.
        further_sales: ids of the further sales, by their roles.
        target: file that says what faults act on; empty: none.
        endless: whether each user plays buyers without end.
        gathers: seconds until all users have started; 0: as long as those of `prove` take.
        operated: whether somebody may pause, restock and break the shop meanwhile by hand.
        books: whether the shop's books can be read.
        left_open: further properties that the run says nothing about, and why not.
    """

    buyers: int
    seed: int
    stock: int = 100
    limit: int = 1
    strategy: str = "combining"
    mix: str = "rush"
    arrivals: float = 0.0
    processes: int = 1
    minutes: float = 0.0
    faults: tuple[str, ...] = ()
    left_out: Mapping[str, str] = field(default_factory=dict)
    times: int = 1
    compose: str = ""
    fenced: bool = False
    mails: bool = True
    levels: frozenset[Level] = frozenset(Level)
    sale: str = ""
    further_sales: Mapping[str, str] = field(default_factory=dict)
    target: str = ""
    endless: bool = False
    gathers: float = 0.0
    operated: bool = False
    books: bool = True
    left_open: Mapping[str, str] = field(default_factory=dict)

    @property
    def lasts(self) -> bool:
        """Whether buyers keep arriving until the run is stopped."""
        return self.endless or bool(self.minutes or self.faults)

    @property
    def spawn_rate(self) -> int:
        """Users started per second, before the sale opens."""
        return max(100, min(self.buyers, 1000))

    @property
    def gathers_in(self) -> float:
        """Seconds, about, until all users have started."""
        return self.gathers or 4.0 + self.buyers / self.spawn_rate

    @property
    def sales(self) -> dict[str, str]:
        """The ids of all sales, by their roles; the main one comes first."""
        return {MAIN: self.sale, **self.further_sales}

    @property
    def wanted(self) -> dict[str, SaleTerms]:
        """What to open each sale with, by its role."""
        main = SaleTerms(self.stock, self.limit, self.strategy)
        return {role: terms_of(role, main) for role in roles_for(self.mix)}

    @property
    def restocks(self) -> dict[str, tuple[int, int | None]]:
        """The units of a restock and how often there is one at most, by the sale's role."""
        if self.minutes or self.faults:
            # What is drawn is drawn once.
            lasting = {role: terms for role, terms in self.wanted.items() if not terms.draw}
            return {role: (terms.stock, None) for role, terms in lasting.items()}
        if self.mix == "all":
            return {MAIN: (max(1, round(self.stock * REFILL)), REFILLS)}
        return {}

    @property
    def not_judged(self) -> dict[str, str]:
        """The properties that such a run says nothing about, and why not."""
        has = {
            Need.SOLD_OUT: True,
            Need.PROMISES: True,
            Need.FENCING: self.fenced,
            Need.FAULTS: bool(self.faults),
            Need.CARTS: self.mix in WITH_CARTS,
            Need.PEEPERS: self.mix in WITH_PEEPERS,
            Need.DRAWS: self.mix in WITH_DRAWS,
            Need.MAILS: self.mails,
        }
        reasons = not_judged(self.levels, [need for need, there in has.items() if there])
        reasons |= dict.fromkeys(OPERATED, BY_HAND) if self.operated else {}
        return reasons | dict(self.left_open)

    @property
    def enough(self) -> dict[str, int]:
        """What the run must have seen, so that its verdict means something."""
        paid = self.mix in WITH_PAYMENTS and "P11" not in self.left_open
        return ENOUGH | {"captured": 1} if paid else ENOUGH

    @property
    def how(self) -> dict[str, Any]:
        """How it is judged: further arguments of the checker."""
        return {"enough": self.enough, "books": self.books}

    @property
    def doubt(self) -> str:
        """Return nothing: what the run lacks for a verdict is found by the checker."""
        return ""

    @property
    def more(self) -> dict[str, Any]:
        """Return nothing that its verdict's document says besides."""
        return {}

    @property
    def title(self) -> str:
        """The run in one line."""
        size = f"{counted(self.buyers, 'buyer')}, {counted(self.stock, 'unit')}"
        return f"{size}, strategy {self.strategy}"

    @property
    def loop(self) -> str:
        """How buyers arrive."""
        return f"open loop, {self.arrivals:g} buyers/s" if self.arrivals else "closed loop"

    @property
    def repeat(self) -> str:
        """The command that repeats the run."""
        arguments = (
            f"--buyers {self.buyers} --stock {self.stock} --limit {self.limit} "
            f"--strategy {self.strategy} --mix {self.mix} --seed {self.seed}"
        )
        if self.arrivals:
            arguments += f" --arrivals {self.arrivals:g}"
        if self.minutes:
            arguments += f" --minutes {self.minutes:g}"
        if self.times > 1:
            arguments += f" --times {self.times}"
        if self.compose:
            arguments += f" --compose {self.compose}"
        if {*self.faults, *self.left_out} == set(FAULTS):
            arguments += " --faults all"
        else:
            arguments += "".join(f" --fault {name}" for name in self.faults)
        return f'make prove ARGS="{arguments}"'

    def describe(self, reason: str, look: str) -> Description:
        """Return what the files of the run do not say.

        Args:
            reason: why there can be no verdict; empty if there may be one.
            look: a command that shows the books of the main sale; empty if none is known.
        """
        facts = self.facts(self.sale)
        return Description(self.title, self.repeat, facts, reason, self.buyers, look=look)

    def facts(self, sale: str) -> dict[str, Any]:
        """What the head of the report says."""
        return {
            "sale": sale,
            "strategy": self.strategy,
            "buyers": f"{self.mix}, {self.loop}",
            "seed": self.seed,
        }


def open_sales(shop: FullShop, plan: RunPlan, starts_in: float) -> RunPlan:
    """Open the sales that the plan has no ids of, and return the plan with these.

    The main one opens in so many seconds, the further ones at once: no buyer looks at them before
    the main one opens. The window of a draw ends so long after that. Raises `ShopRefused`.
    """
    sale = plan.sale or shop.open_sale(plan.wanted[MAIN], starts_in)
    further_sales = plan.further_sales or {
        role: shop.open_sale(_lasting(terms, starts_in), 0.0)
        for role, terms in plan.wanted.items()
        if role != MAIN
    }
    return replace(plan, sale=sale, further_sales=further_sales)


def _lasting(terms: SaleTerms, starts_in: float) -> SaleTerms:
    return replace(terms, draw=terms.draw + starts_in) if terms.draw else terms
