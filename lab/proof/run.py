"""One proof and its faults: a run against a shop whose processes and database are at hand."""

from __future__ import annotations

import shutil
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from development import StackError
from development.signals import leave_if_asked
from lab.proof.load import LONGEST, LocustProcess, direct_buyers
from lab.proof.progress import STALLED, Deadline, Progress
from lab.proof.result import Result
from lab.proof.testbed import Testbed, behaviour_for, misbehave
from loadtest.checker import Verdict
from loadtest.checker.judging import write_verdict
from loadtest.checker.report import Description
from loadtest.checker.snapshot import Item
from loadtest.faults import Chaos, Target, find
from loadtest.faults.fault import SETTLED
from loadtest.files import RunFiles
from loadtest.full_shop import ShopRefused
from loadtest.run import Faults, Load, Show, run
from loadtest.run_plan import AFTERWARDS, RunPlan
from loadtest.sales import GATHERING, SELLING, Sales
from loadtest.shops.flash_sale.adapter import Adapter

ENDING, SETTLING = "ending the load", "waiting for the servers to recover"

LOOK = 0.5
"""Seconds between two looks at the stock, which are judged as well, or at the servers."""

NOTHING = Target(web="", shop=0, database="", database_folder="", redis="", broker="")
"""Where nothing may be broken."""


class FaultRun(Chaos, Faults):
    """Injects the plan's faults.

    Args:
        plan: of the proof.
        sales: of the run, at a shop that says what may be broken.

    Attributes:
        unsettled: why the servers had not recovered at the end; empty if they had.
    """

    def __init__(self, plan: RunPlan, sales: LocalSales) -> None:
        target, files = sales.testbed.target, sales.files
        times = 0 if plan.minutes else plan.times
        names = plan.faults if target is not None else ()
        super().__init__(names, target or NOTHING, plan.seed, files.faults, times=times)
        self._plan, self._names, self._sales = plan, names, sales
        self._enough: float | None = None
        self.unsettled = ""

    @property
    def want_stock(self) -> bool:
        """Whether the fault of this moment needs a shop that sells."""
        return self.current is not None and self.current.wants_stock

    @contextmanager
    def breaking(self) -> Iterator[None]:
        """Prepare the faults; on exit, heal the last one.

        After an error, servers on this machine are healed before they are stopped. Containers are
        just removed.
        """
        if self._names:
            self._target = replace(self._target, sale=int(self._sales.plan.sale))
            self._target.write(self._sales.files.path / "target.json")
        try:
            yield
        except BaseException:
            (self.abandon if self._plan.compose else self.stop)()
            raise
        self.stop()

    def over(self) -> bool:
        """Start to inject when the sale has opened; return whether the last fault is long ago."""
        since = time.monotonic() - self._sales.opening
        if since >= 0 and self._names and not self.started:
            self.start()
        plan = self._plan
        if not plan.lasts or not self._done(since):
            return False
        if self._enough is None:
            self._enough = time.monotonic() + (AFTERWARDS if plan.faults else 0)
        return time.monotonic() >= self._enough

    def _done(self, since: float) -> bool:
        """Whether the planned time is up, `since` seconds after the opening, and all is healed."""
        plan = self._plan
        if plan.minutes and since < 60 * plan.minutes:
            return False
        if plan.minutes:
            self.end()
        return self.done or not self._names

    def settle(self) -> None:
        """Wait until the servers have recovered from all faults, for a while at most."""
        self._sales.show.step(SETTLING)
        deadline = time.monotonic() + SETTLED
        while reason := self._unsettled():
            if time.monotonic() > deadline:
                self.unsettled = reason
                return
            time.sleep(LOOK)

    def _unsettled(self) -> str:
        """Return why a server has not recovered; empty if all have."""
        reasons = {find(name).unsettled(self._target) for name in self._names}
        return "; ".join(sorted(reasons - {""}))

    def shortcoming(self) -> str:
        """Why the faults prove nothing; empty if all happened as planned."""
        problems = [f"{fault.fault}: {fault.error}" for fault in self.failed if not fault.healed]
        if not self._plan.minutes:
            injected = Counter(fault.fault for fault in self.injected)
            missing = {name for name in self._names if injected[name] < self._plan.times}
            problems += [
                f"{fault.fault}: {fault.error}" for fault in self.failed if fault.fault in missing
            ]
        shortcomings = [f"not injected: {'; '.join(problems)}"] if problems else []
        if self.unsettled:
            shortcomings.append(f"not recovered at the end: {self.unsettled}")
        return "; ".join(shortcomings)


class LocalSales(Sales):
    """The sales of a shop whose database and processes are at hand.

    Args:
        testbed: the shop.
        files: of the run.
        show: follows it.
    """

    def __init__(self, testbed: Testbed, files: RunFiles, show: Show) -> None:
        super().__init__(Adapter(testbed.url), files, show)
        self.testbed = testbed

    def open(self, plan: RunPlan) -> None:
        """Open the sales.

        Raises:
            StackError: the shop does not open them.
        """
        try:
            super().open(plan)
        except ShopRefused as error:
            raise StackError(str(error)) from error
        self._ids = {role: int(sale) for role, sale in self.plan.sales.items()}

    @property
    def books_command(self) -> str:
        """A command that shows the main sale's stock after the run; empty if it is gone by then."""
        return self.shop.look(self.plan.sale) if self.testbed.stays else ""

    def items(self) -> list[Item]:
        """Read the stock of all sales; nothing if nobody says."""
        return self.testbed.items(list(self._ids.values()))

    def left(self, role: str) -> int | None:
        """Read the units available in a sale; None if nobody says."""
        return self.testbed.available(self._ids[role])

    def recover(self) -> None:
        """Restart what the load has kept busy, so that every process serves.

        Raises:
            StackError: a process did not come up again.
        """
        if self.plan.lasts:
            self.testbed.recover(self.show.step)


class LocustLoad(Load):
    """Locust in a process of its own, without a page.

    Args:
        sales: that its buyers come to.

    Attributes:
        totals: what all buyers have done together, when they have; empty if Locust did not say.
    """

    def __init__(self, sales: LocalSales) -> None:
        self._sales = sales
        self.totals: dict[str, Any] = {}

    @contextmanager
    def acting(self) -> Iterator[None]:
        """Run Locust.

        Raises:
            LoadFailed: the load could not be generated.
            StackError: the payment provider does not answer.
        """
        plan, testbed, folder = self._sales.plan, self._sales.testbed, self._sales.files.path
        if testbed.stack is not None:
            # Also where it is to behave: the run before may have had another one.
            misbehave(testbed.stack.psp_url, **behaviour_for(plan))
        with ExitStack() as cleanup:
            self._process = LocustProcess(plan, testbed.url, folder)
            cleanup.callback(self._process.stop)
            cleanup.enter_context(direct_buyers(plan, folder, testbed.stack))
            yield
            self._sales.show.step(ENDING)
        self.totals = self._process.totals()

    def running(self) -> bool:
        """Return whether Locust still runs."""
        return self._process.running()

    def wait(self) -> None:
        """Wait until it is time to look at the shop again."""
        leave_if_asked()
        time.sleep(LOOK)


class TerminalShow(Show):
    """Tells the progress of a proof, and ends one that makes none.

    Args:
        plan: of the proof.
        tell: called with the progress, a few times per second.
    """

    def __init__(self, plan: RunPlan, tell: Callable[[Progress], None]) -> None:
        self._plan, self._tell = plan, tell
        self.sales: LocalSales | None = None
        self.faults: FaultRun | None = None
        self.deadline = Deadline()

    def step(self, step: str, seconds: float = 0.0, pending: int = 0) -> None:
        """Tell the step, and give it a time of its own."""
        plan, faults = self._plan, self.faults
        fault = faults.current if faults is not None else None
        injected = len(faults.injected) if faults is not None else 0
        buyers_act = step in (GATHERING, SELLING)
        if faults is not None and buyers_act and plan.faults:
            number = injected + len(faults.failed)
            current = f"fault {number + 1}, {fault.name}" if fault else f"after {number} faults"
            self.deadline.begin(f"{step}, {current}")
        elif buyers_act:
            self.deadline.begin(step, STALLED + (60 * plan.minutes or LONGEST))
        else:
            # Orders that are followed up are progress, however many are left on a busy machine.
            name = f"{step}, {pending} pending" if pending else step
            self.deadline.begin(name, STALLED + 60 * plan.minutes)
        what, sale = fault.what if fault else "", self.sales.sale if self.sales else ""
        self._tell(Progress(step, seconds, pending, what, injected, sale))


def prove(
    plan: RunPlan,
    testbed: Testbed,
    folder: Path,
    tell: Callable[[Progress], None],
    report_to: Path | None = None,
    patience: float = Sales.patience,
) -> Result:
    """Let buyers at a shop, and return what came of it; the verdict is in the folder, too.

    Args:
        plan: what to prove.
        testbed: the shop.
        folder: for the history and the snapshots.
        tell: called with the progress, a few times per second.
        report_to: file for the report; None for none.
        patience: seconds without fewer follow-ups, after which the run is judged as it is.

    Raises:
        Stalled: a step took too long; the shop cannot be judged.
        LoadFailed, StackError: it could not be run.
    """
    files, show = RunFiles(folder), TerminalShow(plan, tell)
    sales = LocalSales(testbed, files, show)
    sales.patience = patience
    load, faults = LocustLoad(sales), FaultRun(plan, sales)
    show.sales, show.faults = sales, faults
    with show.deadline:
        verdict = run(plan, sales, load, faults, show)
        result = _result(sales, verdict, load, faults)
        result.document = _write(sales, result, report_to)
    return result


def _result(sales: LocalSales, verdict: Verdict, load: LocustLoad, faults: FaultRun) -> Result:
    files = sales.files
    result = Result(
        sale=int(sales.plan.sale),
        verdict=verdict,
        reason=verdict.reason or faults.shortcoming(),
        unsettled=faults.unsettled,
        faults=faults.injected,
        not_injected=faults.failed,
        late=load.totals.get("late"),
        unstarted=load.totals.get("unstarted"),
    )
    result.count(
        [history for history in files.histories() if history != files.again], sales.opening
    )
    log = sales.testbed.log
    if result.outcome != "pass" and log is not None and log.exists():
        # A shop that was started for the proof takes its own file along when it ends.
        own = sales.testbed.target is not None or sales.testbed.stack is not None
        result.log = Path(shutil.copy(log, files.path)) if own else log
    return result


def _write(sales: LocalSales, result: Result, report_to: Path | None) -> dict[str, Any]:
    """Write the verdict, and its page if one is wanted; return the verdict."""
    plan = sales.plan
    facts: dict[str, Any] = plan.facts(str(result.sale))
    if plan.arrivals and result.late is not None:
        facts["buyers"] += f" ({result.late} late, {result.unstarted} never)"
    facts["pace"] = result.pace
    remarks = [f"{name} was left out: it needs {what}." for name, what in plan.left_out.items()]
    if result.late or result.unstarted:
        remarks.append("Buyers began late or not at all, for want of users: take more --buyers.")
    description = Description(
        title=plan.title,
        repeat=plan.repeat,
        facts=facts,
        reason=result.reason,
        buyers=plan.buyers,
        look=sales.books_command,
        remarks=remarks,
    )
    outcome, headline = result.outcome, result.headline(plan.buyers)
    return write_verdict(
        sales.files, description, result.verdict, report_to, verdict=outcome, headline=headline
    )
