"""One proof, step by step: a fresh sale, a crowd, a look at the books, a verdict."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

from django.db import Error

from inventory.strategies import CLASSES
from loadtest.checker import Verdict, judge
from loadtest.checker.snapshot import Item
from loadtest.history import OK, operations
from shop import snapshot
from shop.models import Sale
from shop.proof.load import Crowd, Load
from shop.sales import database_time, open_sale

PROPERTIES = ("P1", "P2", "P3", "P4", "P5", "P6", "P7", "P8", "P9", "P10", "P13")
"""What a run without faults and payment provider can say something about. P11 wants a provider's
ledger and P12 faults."""

LOOK = 0.5
"""Seconds between two looks at the stock; each is judged as well."""

MOST_SNAPSHOTS = 200
"""Snapshots kept during a run."""

DRAIN = 120
"""Seconds for the follow-up to come to rest. What is open then is judged as it is."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What is to be proved.

    Attributes:
        crowd: who comes.
        stock: units.
        limit: units a buyer may have.
        strategy: how is sold.
    """

    crowd: Crowd
    stock: int
    limit: int
    strategy: str


@dataclass(slots=True)
class Progress:
    """What is going on, for whoever watches."""

    phase: str
    seconds: float = 0.0
    item: Item | None = None
    owed: int = 0


@dataclass(slots=True)
class Result:
    """What came out.

    Attributes:
        verdict: of the checker; None if there was nothing to judge.
        reason: why there is no verdict.
        seconds: from the opening to the last accepted purchase.
    """

    sale: int
    verdict: Verdict | None
    seconds: float
    reason: str = ""
    snapshots: list[Path] = field(default_factory=list)

    @property
    def outcome(self) -> str:
        """pass, fail or unknown."""
        return self.verdict.verdict if self.verdict else "unknown"

    def rate(self) -> float:
        """Orders accepted a second."""
        orders = self.verdict.counts["orders"] if self.verdict else 0
        return round(orders / self.seconds, 1) if self.seconds else 0.0

    def to_json(self, plan: Plan, repeat: str) -> dict[str, Any]:
        """The result as ``prove --json`` writes it."""
        judged = self.verdict.to_json() if self.verdict else {"properties": [], "counts": {}}
        return {
            "verdict": self.outcome,
            "reason": self.reason,
            "strategy": plan.strategy,
            "seed": plan.crowd.seed,
            "mix": plan.crowd.mix,
            "buyers": plan.crowd.buyers,
            "stock": plan.stock,
            "sale": self.sale,
            "faults": [],
            "properties": judged["properties"],
            "counts": judged["counts"],
            "seconds": round(self.seconds, 2),
            "rate": self.rate(),
            "repeat": repeat,
        }


class Proof:
    """Runs a plan against a shop.

    Args:
        plan: what to prove.
        url: the shop's address.
        folder: for the history and the snapshots.
        tell: called with the progress, a few times a second.
    """

    def __init__(
        self, plan: Plan, url: str, folder: Path, tell: Callable[[Progress], None]
    ) -> None:
        self._plan = plan
        self._url = url
        self._folder = folder
        self._tell = tell
        self._snapshots: list[Path] = []

    def run(self) -> Result:
        """Prove it.

        Raises:
            LoadFailed: the crowd could not be made.
        """
        plan = self._plan
        sale = open_sale(
            stock=plan.stock,
            price=Decimal(999),
            limit=plan.limit,
            strategy=plan.strategy,
            starts_in=timedelta(seconds=plan.crowd.gathers_in),
        )
        seconds = self._load(sale)
        self._drain(sale.pk)
        final = self._folder / "final.snapshot"
        try:
            snapshot.write(final, sale.pk)
        except Error as error:
            return Result(sale.pk, None, seconds, f"no final read: {error}")
        self._tell(Progress("judging"))
        verdict = judge(
            self._histories(), final, during=self._snapshots, properties=_properties(plan)
        )
        return Result(sale.pk, verdict, seconds, snapshots=self._snapshots)

    def _load(self, sale: Sale) -> float:
        """Let the crowd at it; seconds from the opening to the last accepted purchase."""
        opening = time.monotonic() + (sale.starts_at - database_time()).total_seconds()
        load = Load(self._plan.crowd, self._url, sale.pk, self._folder)
        try:
            while load.running():
                since = time.monotonic() - opening
                item = self._look(sale.pk)
                phase = "selling" if since >= 0 else "gathering the buyers"
                self._tell(Progress(phase, since, item))
                time.sleep(LOOK)
        finally:
            load.stop()
        # The history is on this machine's monotonic clock, like the opening.
        return max(last_sale(self._histories()) / 1e9 - opening, 0.0)

    def _look(self, sale: int) -> Item | None:
        """A snapshot in the middle of it; None if the database does not answer now."""
        try:
            if len(self._snapshots) < MOST_SNAPSHOTS:
                path = self._folder / f"during-{len(self._snapshots):03}.snapshot"
                snapshot.write(path, sale, items_only=True)
                self._snapshots.append(path)
            return snapshot.read_item(sale)
        except Error:
            return None

    def _drain(self, sale: int) -> None:
        """Wait until nothing is owed any more."""
        give_up = time.monotonic() + DRAIN
        start = time.monotonic()
        while time.monotonic() < give_up:
            owed = snapshot.owed(sale)
            self._tell(Progress("waiting for the follow-up", time.monotonic() - start, owed=owed))
            if owed == 0:
                return
            time.sleep(LOOK)

    def _histories(self) -> Sequence[Path]:
        return sorted(self._folder.glob("*.jsonl"))


def _properties(plan: Plan) -> list[str]:
    """What can be said about this plan: without fencing tokens, nothing about their order."""
    fenced = CLASSES[plan.strategy].fenced
    return [each for each in PROPERTIES if fenced or each != "P9"]


def last_sale(histories: Sequence[Path]) -> int:
    """When the last purchase was accepted, in ns of the monotonic clock; 0 if none was."""
    accepted = (
        call.end for call in operations(*histories) if call.op == "order" and call.outcome == OK
    )
    return max(accepted, default=0)
