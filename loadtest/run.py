"""One run, whatever the shop and the buyers: `run(plan, shop, load, faults, show)`.

`manage.py prove`, its controls, the duel and the control room call it with the processes and the
database of our shop at hand (`lab/proof`); Locust calls it with and without its page
(`loadtest/ui`); a rush calls it for each of its rounds (`loadtest/rush`). They differ in the
arguments only, whose types are below.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Generic, TypeVar

from loadtest.checker import Verdict

P = TypeVar("P")


class ShopUnderTest(ABC, Generic[P]):
    """The shop of a run: what it sells, and its books."""

    @abstractmethod
    def open(self, plan: P) -> None:
        """Put on sale what the plan says."""

    def changing(self) -> AbstractContextManager[None]:
        """Change and restock the sales during the block, as the plan says."""
        return nullcontext()

    def look(self, *, plenty: bool) -> None:
        """Look at the stock while buyers act, for the verdict and for those who follow the run.

        With `plenty`, the sales must not run out for now.
        """

    def recover(self) -> None:
        """Wait until every process that was broken serves again."""

    @abstractmethod
    def rest(self) -> bool:
        """Wait until nothing changes any more; return whether it came to that."""

    @abstractmethod
    def ask_again(self) -> bool:
        """Ask once more when all is at rest; return whether anything was asked."""

    @abstractmethod
    def read(self) -> None:
        """Write down the shop's own books."""

    @abstractmethod
    def judge(self) -> Verdict:
        """Compare every answer with the books."""


class Load(ABC):
    """The buyers of a run."""

    @abstractmethod
    def acting(self) -> AbstractContextManager[None]:
        """Let the buyers act during the block: the sales are open."""

    @abstractmethod
    def running(self) -> bool:
        """Return whether some still act."""

    @abstractmethod
    def wait(self) -> None:
        """Wait until it is time to look at the shop again, or until the buyers have finished."""


class Faults:
    """What breaks during a run; here nothing does."""

    @property
    def want_stock(self) -> bool:
        """Whether the fault of this moment needs a shop that sells."""
        return False

    def breaking(self) -> AbstractContextManager[None]:
        """Inject the faults during the block; on exit, heal the last one."""
        return nullcontext()

    def over(self) -> bool:
        """Inject what is due, and return whether buyers need not act any longer."""
        return False

    def settle(self) -> None:
        """Wait until the servers have recovered."""


class Show:
    """Follows a run; this one shows nothing."""

    def step(self, step: str, seconds: float = 0.0, pending: int = 0) -> None:
        """Show what is done now.

        Args:
            step: in a few words.
            seconds: since it began; while buyers act, since the opening.
            pending: how many follow-ups are awaited.
        """

    def following(self) -> AbstractContextManager[None]:
        """Follow the buyers during the block."""
        return nullcontext()

    def judge(self, shop: ShopUnderTest[Any]) -> Verdict:
        """Have the run judged, here or in a process of its own."""
        return shop.judge()


def run(plan: P, shop: ShopUnderTest[P], load: Load, faults: Faults, show: Show) -> Verdict:
    """Let buyers at a shop, and judge what came of it.

    1. Open: put on sale what the plan says.
    2. Gather, load and break: buyers come and act, sales change, faults are injected and healed.
    3. Heal: wait until every process serves.
    4. Rest: wait until nothing is pending, and the books do not change.
    5. Ask again: repeat purchases under their old keys, or give units back; then rest once more.
    6. Read the books.
    7. Judge: compare every answer with the books.

    Args:
        plan: what is sold, to whom, and what is broken meanwhile.
        shop: that sells.
        load: the buyers.
        faults: `Faults()` for none.
        show: follows the run; `Show()` for nobody.
    """
    shop.open(plan)
    # Faults end before the load does: buyers have to be served again after the last one.
    with load.acting(), shop.changing(), faults.breaking(), show.following():
        while load.running() and not faults.over():
            shop.look(plenty=faults.want_stock)
            load.wait()
    shop.recover()
    if shop.rest() and shop.ask_again():
        shop.rest()
    faults.settle()
    shop.read()
    return show.judge(shop)
