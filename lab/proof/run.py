"""One proof: the steps of a run, against a shop whose processes and database are at hand."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from typing import Any

from development.errors import StackError
from development.signals import leave_if_asked
from lab.proof import direct, processes
from lab.proof.deadline import STALLED, Deadline, ending
from lab.proof.fault_run import FaultRun
from lab.proof.load_profile import LONGEST, Load
from lab.proof.plan import AFTERWARDS, Plan
from lab.proof.progress import During, Progress, Tally
from lab.proof.result import Result, run_statistics
from lab.proof.server_errors import ServerErrors
from lab.proof.testbed import Testbed
from loadtest import steps
from loadtest.address import address_of
from loadtest.checker.snapshot import Terms
from loadtest.conduct import Books, Conductor
from loadtest.faults import Fault
from loadtest.report import Story
from loadtest.roles import MAIN, TIMED
from loadtest.shops.flash_sale.demo import DemoShop, ShopRefused
from loadtest.steps import Judged, RunFiles, Schedule, judge_run, opening_of

LOOK = 0.5
"""Seconds between two looks at the stock; each is judged as well."""


class Proof(Conductor):
    """Runs a plan against a shop; after `run`, its `result` is there.

    Args:
        plan: what to prove.
        testbed: the shop.
        folder: for the history and the snapshots.
        tell: called with the progress, a few times per second.
        report_to: file for the report; None for none.
    """

    result: Result

    def __init__(
        self,
        plan: Plan,
        testbed: Testbed,
        folder: Path,
        tell: Callable[[Progress], None],
        report_to: Path | None = None,
    ) -> None:
        self._plan, self._testbed, self._tell = plan, testbed, tell
        self._report_to = report_to
        self.files = RunFiles(folder)
        self._tally = Tally(folder)
        self._errors = ServerErrors(testbed.log)
        self._fault_run = FaultRun(plan, testbed.target, self.files)
        self._deadline = Deadline()
        self.patience = plan.drain

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
        plan, address = self._plan, address_of(self._testbed.url)
        self._say("opening the sales")
        shop = DemoShop(address)
        # The further ones start at once: no buyer looks at them before the main one opens.
        starts_in = {MAIN: plan.profile.gathers_in}
        try:
            opened = {
                role: shop.open_sale(terms, starts_in.get(role, 0.0))
                for role, terms in plan.sales.items()
            }
            self._terms = {role: shop.change(sale) for role, sale in opened.items()}
        except ShopRefused as error:
            raise StackError(str(error)) from error
        self._sales = {role: int(sale) for role, sale in opened.items()}
        self._main, *others = opened.values()
        self._shop = DemoShop(address, others)
        # The history is on this machine's monotonic clock.
        self._opening = opening_of(self._terms[MAIN])
        self._during = During(list(self._sales.values()), self.files, plan.about_seconds)
        self._schedule = self._scheduled()

    @contextmanager
    def load(self) -> Iterator[None]:
        """Run Locust in a process of its own, and take a sale through its changes beside it.

        Raises:
            LoadFailed: the load could not be generated.
            StackError: the payment provider does not answer.
        """
        plan, stack, folder = self._plan, self._testbed.stack, self.files.path
        ids = self._sales
        if stack is not None:
            # Also where it is to behave: the run before may have had another one.
            processes.misbehave(stack.psp_url, **plan.provider)
        with ExitStack() as cleanup:
            self._load = Load(plan.profile, self._testbed.url, ids, folder)
            cleanup.callback(self._load.stop)
            if plan.profile.mix in direct.MIXES:
                client = direct.Direct(ids, self._opening, plan.profile.seed, folder, stack)
                cleanup.callback(client.stop)
            if self._schedule is not None:
                self._schedule.start()
                cleanup.push(ending(self._schedule.stop))
            yield
        self._totals = self._load.totals()

    def faults(self) -> AbstractContextManager[None]:
        """Inject the planned faults, and restock sales that have to last."""
        return self._fault_run.open(self._sales)

    def watch(self) -> None:
        """Take snapshots until the buyers have finished, or the last fault is long enough ago."""
        end = None
        while self._load.running():
            since = time.monotonic() - self._opening
            self._look(since)
            leave_if_asked()
            if since >= 0:
                self._fault_run.begin()
            if self._plan.lasts and self._fault_run.is_over(since):
                end = end or time.monotonic() + (AFTERWARDS if self._plan.faults else 0)
                if time.monotonic() >= end:
                    break
            time.sleep(LOOK)
        self._say("ending the load")

    def recover(self) -> None:
        """Restart what the load has kept busy, so that every process serves.

        Raises:
            StackError: a process did not come up again.
        """
        if self._plan.lasts and self._testbed.stack is not None:
            processes.restart(self._testbed.stack, lambda phase: self._say(phase))

    def books(self, since: float) -> Books | None:
        """Look at what is pending."""
        try:
            owed = int(self._shop.figures(self._main)["owed"])
        except ShopRefused:
            return None
        self._say("waiting for the follow-up", since, owed)
        return Books(owed, ())

    def repeats(self) -> tuple[tuple[str, int], int]:
        """The shop's address, and the plan's seed."""
        self._say("asking again")
        return address_of(self._testbed.url), self._plan.profile.seed

    def terms(self) -> list[Terms]:
        """The terms of the sales, and the changes of one of them."""
        changed = self._schedule.rows[1:] if self._schedule else []
        return [*self._terms.values(), *changed]

    def read(self) -> None:
        """Read the database and the provider when the servers have recovered."""
        self._say("waiting for the servers to recover")
        self._fault_run.wait_until_settled()
        self._say("reading the books")
        shop, files = self._shop, self.files
        refused = shop.insist(shop.snapshot, self._main, files.final)
        self._unread = f"no final read: {refused}" if refused else ""
        # Without the one, P11 is unknown; without the other, P19.
        shop.insist(shop.ledger, self._main, files.ledger)
        shop.insist(shop.deliveries, self._main, files.deliveries)

    def judge(self) -> None:
        """Compare every answer with the database."""
        self._say("judging")
        judged = Judged(None, self._unread)
        if not self._unread:
            judged = judge_run(self.files, self.histories(), self._plan.of_run.not_judged)
        injected = self._fault_run.injected
        during = [each for each in self.files.histories() if each != self.files.again]
        statistics = run_statistics(during, injected, self._main)
        self.result = Result(
            sale=self._sales[MAIN],
            verdict=judged.verdict,
            seconds=max(statistics.last_sale / 1e9 - self._opening, 0.0),
            sold_out_after=max(statistics.sold_out / 1e9 - self._opening, 0.0),
            speed=statistics.speed,
            reason=judged.reason or self._fault_run.shortcoming(),
            unsettled=self._fault_run.unsettled,
            operations=statistics.operations,
            faults=injected,
            recoveries=statistics.recoveries,
            after_loss=statistics.after_loss,
            not_injected=self._fault_run.failed,
            late=self._totals.get("late"),
            unstarted=self._totals.get("unstarted"),
        )
        self._errors.close()
        if self.result.outcome != "pass":
            self.result.problems = self._errors.told()
            self.result.log = self._errors.keep(self.files.path)

    def report(self) -> None:
        """Write the report, if one is wanted."""
        if self._report_to is not None:
            _write_report(self._report_to, self._plan, self.result, self.files)

    def _scheduled(self) -> Schedule | None:
        """The changes of the sale that has any."""
        timed = self._terms.get(TIMED)
        if timed is None:
            return None
        return Schedule(
            timed, self._opening, self._shop.change, (ShopRefused,), repeats=self._plan.lasts
        )

    def _look(self, since: float) -> None:
        fault = self._fault_run.look()
        phase = "selling" if since >= 0 else "gathering the buyers"
        self._begin(phase, fault)
        self._during.look()
        self._tell(
            Progress(
                phase,
                since,
                calls=self._tally.look(),
                fault=fault.what if fault else "",
                injected=len(self._fault_run.injected),
            )
        )

    def _begin(self, phase: str, fault: Fault | None) -> None:
        """Note the progress of the load: the beginning or end of a fault."""
        run, plan = self._fault_run, self._plan
        if not plan.faults:
            self._deadline.begin(phase, STALLED + (60 * plan.minutes or LONGEST))
            return
        number = len(run.injected) + len(run.failed)
        current = f"fault {number + 1}, {fault.name}" if fault else f"after {number} faults"
        self._deadline.begin(f"{phase}, {current}")

    def _say(self, phase: str, seconds: float = 0.0, owed: int = 0) -> None:
        self._deadline.begin(phase, STALLED + 60 * self._plan.minutes)
        injected = len(self._fault_run.injected)
        calls = self._tally.look()
        self._tell(Progress(phase, seconds, owed=owed, calls=calls, injected=injected))


def _write_report(path: Path, plan: Plan, result: Result, files: RunFiles) -> None:
    """Write the report of a proof to `path`."""
    run = plan.of_run
    facts: dict[str, Any] = run.facts(str(result.sale))
    if run.arrivals and result.late is not None:
        facts["buyers"] += f" ({result.late} late, {result.unstarted} never)"
    facts["pace"] = result.pace
    if plan.left_out:
        facts["left out"] = ", ".join(plan.left_out)
    story = Story(run.title, run.repeat, facts, result.reason, run.buyers)
    steps.write_report(path, files, files.histories(), story, result.verdict)
