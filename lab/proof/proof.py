"""One proof, step by step: a fresh sale, a crowd, a look at the books, a verdict."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

from django.db import Error

from inventory.selling.commit import forget_connection
from inventory.selling.strategies import CLASSES
from lab.proof import provider_ledger, snapshot
from lab.proof.load_profile import Crowd, Load
from lab.proof.restock import Restocker
from lab.proof.run_statistics import run_statistics
from lab.proof.server_errors import ServerErrors
from lab.proof.tally import Tally
from lab.proof.testbed import Testbed
from loadtest.checker import Rate, Verdict, judge
from loadtest.checker.snapshot import Item
from loadtest.faults.chaos import BETWEEN, Chaos, Injected
from loadtest.scenarios import sales_for
from shop.catalogue.models import Sale
from shop.catalogue.sales import database_time, open_sale
from shop.orders.models import Order
from shop.payments.provider import PaymentUnknown

log = logging.getLogger(__name__)

FAULT_LOG = "faults.log"
"""In the proof's folder; not among the histories, which are its `*.jsonl`."""

PROPERTIES = ("P1", "P2", "P3", "P4", "P5", "P6", "P7", "P8", "P9", "P10", "P11", "P12", "P13")
"""What a run can say something about. P12 wants faults, and P9 fencing tokens."""

LOOK = 0.5
"""Seconds between two looks at the stock; each is judged as well."""

MOST_SNAPSHOTS = 200
"""Snapshots kept during a run, spread over the time that it is to last."""

AFTERWARDS = 8.0
"""Seconds that the crowd stays when the last fault is over: the 3 s that the shop may take to
recover, and enough answers after them to judge the rate of good ones."""

READY = 90
"""Seconds for everything to come up again before the final read."""

SALE_LASTS = timedelta(hours=3)
"""Less than a faulty clock is stepped by: a sale judged by it would be over, or not begun."""

DRAIN = 120
"""Seconds for the follow-up to come to rest."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What is to be proved.

    Attributes:
        crowd: who comes.
        stock: units.
        limit: units a buyer may have.
        strategy: how is sold.
        minutes: that the sale lasts, restocked whenever it has run out; 0: until everybody is
            through, or every fault has been there once.
        faults: names of those that are injected meanwhile.
        left_out: those that cannot be injected here, and what they lack.
        drain: seconds for the follow-up to come to rest. What is open then is judged as it is.
        restock_tells: whether a restock removes the sold-out hint; off in a negative control.
    """

    crowd: Crowd
    stock: int
    limit: int
    strategy: str
    minutes: float = 0.0
    faults: tuple[str, ...] = ()
    left_out: Mapping[str, str] = field(default_factory=dict)
    drain: float = DRAIN
    restock_tells: bool = True

    @property
    def lasts(self) -> bool:
        """Whether the sale goes on until it is stopped."""
        return bool(self.minutes or self.faults)

    @property
    def sales(self) -> int:
        """How many there are."""
        return sales_for(self.crowd.mix)

    @property
    def about_seconds(self) -> float:
        """How long it will take, about; 0 if the crowd decides."""
        each = sum(BETWEEN) / 2 + 1.0
        return 60 * self.minutes or len(self.faults) * each + (AFTERWARDS if self.faults else 0)


@dataclass(slots=True)
class Progress:
    """What is going on, for whoever watches.

    Attributes:
        calls: by what came of them, see :class:`Tally`.
        fault: what is being done to the shop now; empty: nothing.
        injected: faults so far.
        restocked: how often.
        rate: calls a second, lately.
    """

    phase: str
    seconds: float = 0.0
    item: Item | None = None
    owed: int = 0
    calls: dict[str, int] = field(default_factory=dict)
    fault: str = ""
    injected: int = 0
    restocked: int = 0
    rate: float = 0.0


@dataclass(slots=True)
class Result:
    """What came out.

    Attributes:
        verdict: of the checker; None if there was nothing to judge.
        reason: why there is no verdict.
        seconds: from the opening to the last accepted purchase.
        operations: calls that the buyers have made.
        faults: what was injected, as in the fault log.
        recoveries: of each of these, seconds to the first ok; None if nobody was served again.
        not_injected: what could not be, and why.
        late: buyers of an open loop that began late, because every user was busy; None: not known.
        unstarted: buyers of an open loop that were due and never began; None likewise.
        problems: errors in the shop's log, the first distinct ones; none if the verdict is pass.
        log: the records of these errors; None if there is no file that outlives the proof.
    """

    sale: int
    verdict: Verdict | None
    seconds: float
    reason: str = ""
    snapshots: list[Path] = field(default_factory=list)
    operations: int = 0
    faults: list[Injected] = field(default_factory=list)
    recoveries: list[float | None] = field(default_factory=list)
    not_injected: list[Injected] = field(default_factory=list)
    late: int | None = None
    unstarted: int | None = None
    problems: list[str] = field(default_factory=list)
    log: Path | None = None

    def rates(self, fault: Injected) -> dict[str, Rate]:
        """Good answers after a fault: of the API and of pages; empty if nothing was judged."""
        aftermaths = self.verdict.aftermaths if self.verdict else []
        return next((each.rates for each in aftermaths if each.start == fault.start), {})

    @property
    def outcome(self) -> str:
        """pass, fail or unknown; a fault that was asked for and not injected proves nothing."""
        if self.verdict is None:
            return "unknown"
        if self.verdict.verdict == "pass" and self.reason:
            return "unknown"
        return self.verdict.verdict

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
            "faults": [
                {
                    **fault.to_json(),
                    "recovery": recovery,
                    "aftermath": {kind: rate._asdict() for kind, rate in self.rates(fault).items()},
                }
                for fault, recovery in zip(self.faults, self.recoveries, strict=True)
            ],
            "not_injected": [fault.to_json() for fault in self.not_injected],
            "left_out": dict(plan.left_out),
            "operations": self.operations,
            "arrivals": plan.crowd.arrivals,
            "late": self.late,
            "unstarted": self.unstarted,
            "minutes": plan.minutes,
            "properties": judged["properties"],
            "counts": judged["counts"],
            "problems": self.problems,
            "log": str(self.log) if self.log else None,
            "seconds": round(self.seconds, 2),
            "rate": self.rate(),
            "repeat": repeat,
        }


class Proof:
    """Runs a plan against a shop.

    Args:
        plan: what to prove.
        testbed: the shop.
        folder: for the history and the snapshots.
        tell: called with the progress, a few times a second.
    """

    def __init__(
        self, plan: Plan, testbed: Testbed, folder: Path, tell: Callable[[Progress], None]
    ) -> None:
        self._plan = plan
        self._arena = testbed
        self._folder = folder
        self._tell = tell
        self._tally = Tally(folder)
        self._errors = ServerErrors(testbed.log)
        self._snapshots: list[Path] = []
        self._next_snapshot = 0.0
        self._chaos: Chaos | None = None
        self._restockers: list[Restocker] = []
        self._sales: list[int] = []
        self._totals: dict[str, Any] = {}

    def run(self) -> Result:
        """Prove it.

        Raises:
            LoadFailed: the crowd could not be made.
            StackError: the shop did not come up again.
        """
        plan = self._plan
        sale, *beside = [self._open() for _ in range(plan.sales)]
        self._sales = [sale.pk, *(each.pk for each in beside)]
        opening = time.monotonic() + (sale.starts_at - database_time()).total_seconds()
        self._load([sale, *beside], opening)
        self._come_up_again()
        self._drain()
        return self._judge(sale.pk, opening)

    def _open(self) -> Sale:
        plan = self._plan
        return open_sale(
            stock=plan.stock,
            price=99_900,
            limit=plan.limit,
            strategy=plan.strategy,
            starts_in=timedelta(seconds=plan.crowd.gathers_in),
            lasts=SALE_LASTS,
        )

    def _load(self, sales: Sequence[Sale], opening: float) -> None:
        """Let the crowd at it, and the faults, until all of it is over."""
        load = Load(self._plan.crowd, self._arena.url, self._sales, self._folder)
        with ExitStack() as cleanup:
            cleanup.callback(load.stop)
            self._prepare_trouble(sales, cleanup)
            end = None
            while load.running():
                since = time.monotonic() - opening
                self._watch(sales[0].pk, since)
                if since >= 0 and self._chaos is not None and not self._chaos.started:
                    self._chaos.start()
                if self._plan.lasts and self._is_over(since):
                    end = end or time.monotonic() + (AFTERWARDS if self._plan.faults else 0)
                    if time.monotonic() >= end:
                        break
                time.sleep(LOOK)
        self._totals = load.totals()

    def _prepare_trouble(self, sales: Sequence[Sale], cleanup: ExitStack) -> None:
        """Whatever goes on beside the buyers; it ends before them."""
        plan = self._plan
        if plan.lasts:
            for sale in sales:
                restocker = Restocker(sale, plan.stock, self._folder, tells=plan.restock_tells)
                restocker.start()
                cleanup.callback(restocker.stop)
                self._restockers.append(restocker)
        if plan.faults and self._arena.target is not None:
            target = replace(self._arena.target, sale=sales[0].pk)
            target.write(self._folder / "target.json")
            log, once = self._folder / FAULT_LOG, not plan.minutes
            self._chaos = Chaos(plan.faults, target, plan.crowd.seed, log, once=once)
            cleanup.callback(self._chaos.stop)

    def _is_over(self, since: float) -> bool:
        """Whether the time is up, and the last fault healed."""
        plan, chaos = self._plan, self._chaos
        if plan.minutes and since < 60 * plan.minutes:
            return False
        if chaos is None:
            return True
        if plan.minutes:
            chaos.end()
        return chaos.done

    def _watch(self, sale: int, since: float) -> None:
        chaos = self._chaos
        fault = chaos.current if chaos else None
        for restocker in self._restockers:
            restocker.plenty = fault is not None and fault.wants_stock
        self._tell(
            Progress(
                "selling" if since >= 0 else "gathering the buyers",
                since,
                self._look(sale),
                calls=self._tally.look(),
                fault=fault.what if fault else "",
                injected=len(chaos.injected) if chaos else 0,
                restocked=sum(each.times for each in self._restockers),
                rate=self._tally.rate,
            )
        )

    def _look(self, sale: int) -> Item | None:
        """A snapshot in the middle of it; None if the database does not answer now."""
        self._errors.look()
        try:
            if len(self._snapshots) < MOST_SNAPSHOTS and time.monotonic() >= self._next_snapshot:
                path = self._folder / f"during-{len(self._snapshots):03}.snapshot"
                snapshot.write(path, self._sales, items_only=True)
                self._snapshots.append(path)
                self._next_snapshot = time.monotonic() + self._plan.about_seconds / MOST_SNAPSHOTS
            return snapshot.read_item(sale)
        except Error:
            forget_connection()
            return None

    def _come_up_again(self) -> None:
        """Faults are over: wait until every process serves, and none is busy with the past."""
        stack = self._arena.stack
        if not self._plan.lasts or stack is None:
            return
        # The crowd was sent away in the middle of it. What it had asked for may still be under way
        # in a web process, and would come after the final read.
        stack.supervisor.stop_program("web")
        stack.supervisor.start_program("web")
        for name in ("psp", "web", "celery", "beat"):
            self._tell(Progress(f"waiting for {name}", calls=self._tally.look()))
            stack.wait_until_ready(name, READY)

    def _drain(self) -> None:
        """Wait until nothing is owed any more."""
        start = time.monotonic()
        while time.monotonic() < start + self._plan.drain:
            try:
                owed = snapshot.owed(self._sales)
            except Error:
                forget_connection()
                owed = -1
            since = time.monotonic() - start
            calls = self._tally.look()
            self._tell(Progress("waiting for the follow-up", since, owed=owed, calls=calls))
            if owed == 0:
                return
            time.sleep(LOOK)

    def _judge(self, sale: int, opening: float) -> Result:
        self._tell(Progress("judging", calls=self._tally.look()))
        histories = sorted(self._folder.glob("*.jsonl"))
        injected = self._chaos.injected if self._chaos else []
        seen = run_statistics(histories, injected)
        # The history is on this machine's monotonic clock, like the opening.
        seconds = max(seen.last_sale / 1e9 - opening, 0.0)
        final = self._folder / "final.snapshot"
        verdict, reason = None, self._not_injected()
        try:
            snapshot.write(final, self._sales)
        except Error as error:
            reason = f"no final read: {error}"
        else:
            verdict = judge(
                histories,
                final,
                during=self._snapshots,
                ledger=self._ledger(),
                faults=self._folder / FAULT_LOG if self._chaos else None,
                properties=_properties(self._plan),
            )
        result = Result(
            sale,
            verdict,
            seconds,
            reason,
            self._snapshots,
            seen.operations,
            injected,
            seen.recoveries,
            self._chaos.failed if self._chaos else [],
            self._totals.get("late"),
            self._totals.get("unstarted"),
        )
        self._name_errors(result)
        return result

    def _name_errors(self, result: Result) -> None:
        """Say what the shop's own log has against a run that is not proved."""
        self._errors.close()
        if result.outcome == "pass":
            return
        result.problems = self._errors.told()
        result.log = self._errors.keep(self._folder)

    def _ledger(self) -> Path | None:
        """What the payment provider moved; None if it does not say, which leaves P11 unknown."""
        path = self._folder / "ledger.snapshot"
        orders = Order.objects.filter(lines__sale__in=self._sales).values_list("pk", flat=True)
        try:
            provider_ledger.write(path, set(orders))
        except PaymentUnknown as error:
            log.warning("%s", error)
            return None
        return path

    def _not_injected(self) -> str:
        """What makes the faults worth nothing; empty if all is as it was asked for."""
        if self._chaos is None:
            return ""
        failed = self._chaos.failed
        problems = [f"{each.fault}: {each.error}" for each in failed if not each.healed]
        happened = {each.fault for each in self._chaos.injected}
        if not self._plan.minutes:
            missing = set(self._plan.faults) - happened
            problems += [f"{each.fault}: {each.error}" for each in failed if each.fault in missing]
        return f"not injected: {'; '.join(problems)}" if problems else ""


def _properties(plan: Plan) -> list[str]:
    """What can be said about this plan."""
    cannot = set() if CLASSES[plan.strategy].fenced else {"P9"}
    if not plan.faults:
        cannot.add("P12")
    return [each for each in PROPERTIES if each not in cannot]
