"""One proof and its faults: a run against a shop whose processes and database are at hand."""

from __future__ import annotations

import shutil
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from django.db import Error, connection

from development import StackError
from development.signals import leave_if_asked
from lab.proof import snapshot
from lab.proof.load import LONGEST, Load, direct_buyers
from lab.proof.progress import STALLED, Deadline, Progress
from lab.proof.result import Result
from lab.proof.testbed import Testbed, behaviour_for, misbehave, restart
from lab.strategies import CLASSES
from loadtest.address import address_of
from loadtest.checker import Verdict
from loadtest.conduct import SaleRun
from loadtest.faults import Chaos, Fault, Target, find
from loadtest.faults.postgres_hosts import SETTLED
from loadtest.files import RunFiles
from loadtest.judging import judge_run, write_verdict
from loadtest.report import Story
from loadtest.rest import Figures
from loadtest.roles import MAIN
from loadtest.shops.flash_sale import look_of
from loadtest.shops.flash_sale.demo import DemoShop, ShopRefused
from loadtest.steps import RunPlan, open_sales
from loadtest.steps.plan import AFTERWARDS
from shop.catalogue.models import Sale

LOOK = 0.5
"""Seconds between two looks at the stock, which are judged as well, or at the servers."""

NOTHING = Target(web="", shop=0, database="", database_folder="", redis="", broker="")
"""Where nothing may be broken."""


class FaultRun(Chaos):
    """Injects the plan's faults.

    Args:
        plan: of the proof.
        target: what faults act on; None if nothing may be broken here.
        files: of the run.

    Attributes:
        unsettled: why the servers had not recovered at the end; empty if they had.
    """

    def __init__(self, plan: RunPlan, target: Target | None, files: RunFiles) -> None:
        times = 0 if plan.minutes else plan.times
        names = plan.faults if target is not None else ()
        super().__init__(names, target or NOTHING, plan.seed, files.faults, times=times)
        self._plan, self._names, self._files = plan, names, files
        self.unsettled = ""

    @contextmanager
    def open(self, sale: str) -> Iterator[None]:
        """Prepare the faults; on exit, heal the last one.

        After an error, servers on this machine are healed before they are stopped. The hosts of a
        bed are just removed.
        """
        if self._names:
            self._target = replace(self._target, sale=int(sale))
            self._target.write(self._files.path / "target.json")
        try:
            yield
        except BaseException:
            (self.abandon if self._plan.bed else self.stop)()
            raise
        self.stop()

    def begin(self) -> None:
        """Start to inject, once: the sale has opened."""
        if self._names and not self.started:
            self.start()

    def is_over(self, since: float) -> bool:
        """Whether the planned time is up, `since` seconds after the opening, and all is healed."""
        plan = self._plan
        if plan.minutes and since < 60 * plan.minutes:
            return False
        if plan.minutes:
            self.end()
        return self.done or not self._names

    def wait_until_settled(self) -> None:
        """Wait until the servers have recovered from all faults, for a while at most."""
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
        problems = [f"{each.fault}: {each.error}" for each in self.failed if not each.healed]
        if not self._plan.minutes:
            injected = Counter(each.fault for each in self.injected)
            missing = {name for name in self._names if injected[name] < self._plan.times}
            problems += [
                f"{each.fault}: {each.error}" for each in self.failed if each.fault in missing
            ]
        shortcomings = [f"not injected: {'; '.join(problems)}"] if problems else []
        if self.unsettled:
            shortcomings.append(f"not recovered at the end: {self.unsettled}")
        return "; ".join(shortcomings)


class Proof(SaleRun):
    """Runs a plan against a shop; after `run`, its `result` is there.

    Args:
        plan: what to prove; its sales are opened.
        testbed: the shop.
        folder: for the history and the snapshots.
        tell: called with the progress, a few times per second.
        report_to: file for the report; None for none.
    """

    result: Result

    def __init__(
        self,
        plan: RunPlan,
        testbed: Testbed,
        folder: Path,
        tell: Callable[[Progress], None],
        report_to: Path | None = None,
    ) -> None:
        plan = replace(plan, fenced=CLASSES[plan.strategy].fenced)
        super().__init__(plan, DemoShop(address_of(testbed.url)), RunFiles(folder))
        self._testbed, self._tell = testbed, tell
        self._report_to = report_to
        self._fault_run = FaultRun(plan, testbed.target, self.files)
        self._deadline = Deadline()

    def run(self) -> None:
        """Plan the run and conduct it.

        Raises:
            Stalled: a step took too long; the shop cannot be judged.
        """
        with self._deadline:
            super().run()

    def open(self) -> None:
        """Open the sales.

        Raises:
            StackError: the shop does not open them.
        """
        self._say("opening the sales")
        try:
            self.plan = open_sales(self.shop, self.plan, self.plan.gathers_in)
            self.shop = DemoShop(self.shop.address, list(self.plan.beside.values()))
            super().open()
        except ShopRefused as error:
            raise StackError(str(error)) from error
        self._ids = {role: int(sale) for role, sale in self.plan.sales.items()}

    @contextmanager
    def load(self) -> Iterator[None]:
        """Run Locust in a process of its own.

        Raises:
            LoadFailed: the load could not be generated.
            StackError: the payment provider does not answer.
        """
        plan, stack, folder = self.plan, self._testbed.stack, self.files.path
        if stack is not None:
            # Also where it is to behave: the run before may have had another one.
            misbehave(stack.psp_url, **behaviour_for(plan))
        with ExitStack() as cleanup:
            self._load = Load(plan, self._testbed.url, folder)
            cleanup.callback(self._load.stop)
            cleanup.enter_context(direct_buyers(plan, folder, stack))
            yield
        self._totals = self._load.totals()

    def faults(self) -> AbstractContextManager[None]:
        """Inject the planned faults; on exit, heal the last one."""
        return self._fault_run.open(self.plan.sale)

    def watch(self) -> None:
        """Take snapshots until the buyers have finished, or the last fault is long enough ago."""
        end = None
        while self._load.running():
            since = time.monotonic() - self.opening
            self._watch(since)
            leave_if_asked()
            if since >= 0:
                self._fault_run.begin()
            if self.plan.lasts and self._fault_run.is_over(since):
                end = end or time.monotonic() + (AFTERWARDS if self.plan.faults else 0)
                if time.monotonic() >= end:
                    break
            time.sleep(LOOK)
        self._say("ending the load")

    def left(self, role: str) -> int | None:
        """Read the units available in a sale; None if the database does not say."""
        try:
            sale = Sale.objects.select_related("item").get(pk=self._ids[role])
        except (Error, Sale.DoesNotExist):  # a database may have lost what it has committed
            return None
        finally:
            connection.close()  # a thread's own, which looks now and then
        return sale.item.available

    def recover(self) -> None:
        """Restart what the load has kept busy, so that every process serves.

        Raises:
            StackError: a process did not come up again.
        """
        if self.plan.lasts and self._testbed.stack is not None:
            restart(self._testbed.stack, self._say)

    def books(self, since: float) -> Figures | None:
        """Look at the sale's figures and what is pending."""
        now = super().books(since)
        if self.answers:
            self._say("waiting for the follow-up", since, self.figures["owed"])
        return now

    def ask_again(self) -> None:
        """Ask for some keys once more."""
        self._say("asking again")
        super().ask_again()

    def read(self) -> None:
        """Read the database and the provider when the servers have recovered."""
        self._say("waiting for the servers to recover")
        self._fault_run.wait_until_settled()
        self._say("reading the books")
        super().read()

    def judge(self) -> None:
        """Compare every answer with the database."""
        self._say("judging")
        verdict = Verdict(reason=self.reason)
        if not self.reason:
            verdict = judge_run(self.files, self.plan.not_judged)
        self.result = Result(
            sale=self._ids[MAIN],
            verdict=verdict,
            reason=verdict.reason or self._fault_run.shortcoming(),
            unsettled=self._fault_run.unsettled,
            faults=self._fault_run.injected,
            not_injected=self._fault_run.failed,
            late=self._totals.get("late"),
            unstarted=self._totals.get("unstarted"),
        )
        during = [each for each in self.files.histories() if each != self.files.again]
        self.result.count(during, self.opening)
        log = self._testbed.log
        if self.result.outcome != "pass" and log is not None and log.exists():
            # A shop that was started for the proof takes its own file along when it ends.
            own = self._testbed.stack is not None
            self.result.log = Path(shutil.copy(log, self.files.path)) if own else log

    def report(self) -> None:
        """Write the verdict, and its page if one is wanted."""
        plan, result = self.plan, self.result
        facts: dict[str, Any] = plan.facts(str(result.sale))
        if plan.arrivals and result.late is not None:
            facts["buyers"] += f" ({result.late} late, {result.unstarted} never)"
        facts["pace"] = result.pace
        if plan.left_out:
            facts["left out"] = ", ".join(plan.left_out)
        look = look_of(str(result.sale))
        story = Story(plan.title, plan.repeat, facts, result.reason, plan.buyers, look=look)
        write_verdict(self.files, story, result.verdict, self._report_to)

    def _watch(self, since: float) -> None:
        """Look at the stock and at the fault of this moment."""
        fault = self._fault_run.current
        for restocks in self.restocks:
            restocks.plenty = fault is not None and fault.wants_stock
        phase = "selling" if since >= 0 else "gathering the buyers"
        self._begin(phase, fault)
        try:
            self.during.add(snapshot.items(list(self._ids.values())), time.monotonic_ns())
        except Error:
            connection.close()
        self._tell_progress(phase, since)

    def _begin(self, phase: str, fault: Fault | None) -> None:
        """Note the progress of the load: the beginning or end of a fault."""
        run, plan = self._fault_run, self.plan
        if not plan.faults:
            self._deadline.begin(phase, STALLED + (60 * plan.minutes or LONGEST))
            return
        number = len(run.injected) + len(run.failed)
        current = f"fault {number + 1}, {fault.name}" if fault else f"after {number} faults"
        self._deadline.begin(f"{phase}, {current}")

    def _say(self, phase: str, seconds: float = 0.0, owed: int = 0) -> None:
        # Orders that are followed up are progress, however many are left on a busy machine.
        step = f"{phase}, {owed} pending" if owed else phase
        self._deadline.begin(step, STALLED + 60 * self.plan.minutes)
        self._tell_progress(phase, seconds, owed)

    def _tell_progress(self, phase: str, seconds: float, owed: int = 0) -> None:
        fault, injected = self._fault_run.current, len(self._fault_run.injected)
        what = fault.what if fault else ""
        self._tell(Progress(phase, seconds, owed, what, injected))
