"""A load-generating process's part in each run, attached to Locust by its events.

Works in a single process, with `--processes`, and with a master and workers. The master (or the
single process) chooses sale and seed; every process with users has buyers and a history of its own.
"""

from __future__ import annotations

import functools
import json
import logging
import random
import sys
import time
import uuid
from argparse import Namespace
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any, NoReturn

import gevent
from locust import User
from locust.dispatch import UsersDispatcher
from locust.env import Environment
from locust.event import Events
from locust.exception import StopTest
from locust.runners import MasterRunner, WorkerRunner

from loadtest.address import RunImpossible
from loadtest.calls import Finished, Tally
from loadtest.checker import EXIT_CODES, UNKNOWN
from loadtest.faults.process import NONE, offered
from loadtest.full_shop import FullShop, ShopRefused
from loadtest.mix.plan import BUYERS, RUSH
from loadtest.mix.sale import MixSale
from loadtest.open_files import file_shortage, raise_file_limit
from loadtest.options import CUSTOM, FRESH, PRESETS, add_options, plan_of, wrong_numbers
from loadtest.run_plan import RunPlan, open_sales
from loadtest.sale_roles import DRAWN, MAIN, TIMED, format_sales, parse_sales
from loadtest.scenarios import MIXES, parse_weights
from loadtest.shops import OURS, load_full
from loadtest.ui.page import Page
from loadtest.ui.rush_run import RushRun
from loadtest.users import Shoppers, Users, find_sale, read_tokens
from loadtest.worker_histories import Collector, Sender

# One user in this many is a visitor, up to the most of them per load-generating process. Pages are
# judged after faults as the API is, whatever the mix.
USERS_PER_VISITOR = 4
MAX_VISITORS = 4


class Dispatcher(UsersDispatcher):
    """Starts buyers, and visitors where the sale goes on; or the users of a rush.

    Args:
        options: the parsed options; the page changes them between runs.
        worker_nodes, user_classes: as Locust passes them.
    """

    def __init__(
        self, options: Namespace, worker_nodes: list, user_classes: list[type[User]]
    ) -> None:
        super().__init__(worker_nodes, user_classes)
        self._options = options
        self._by_name = {user_class.__name__: user_class for user_class in user_classes}
        self._processes = max(1, len(worker_nodes))

    def new_dispatch(
        self,
        target_user_count: int,
        spawn_rate: float,
        user_classes: list[type[User]] | None = None,
    ) -> None:
        """Start a ramp-up of the run's users; `user_classes` of a load shape win over them."""
        ours = self._options.shop == OURS
        at_own_pace = ours or self._options.mix == BUYERS
        chosen = user_classes or [self._by_name["Buyer" if at_own_pace else "Rusher"]]
        if user_classes is None and ours and goes_on(self._options):
            visitor = self._by_name["Visitor"]
            wanted = -(-target_user_count // USERS_PER_VISITOR)
            visitor.fixed_count = min(wanted, MAX_VISITORS * self._processes)
            if visitor.fixed_count:
                chosen = [*chosen, visitor]
        super().new_dispatch(target_user_count, spawn_rate, chosen)


def goes_on(options: Namespace) -> bool:
    """Whether buyers keep arriving until the run is stopped: a fault run, or 0 rounds."""
    return bool(getattr(options, "endless", False)) or int(options.rounds) == 0


ONE_PROCESS = (
    f"the mix {BUYERS} runs in one process, since an adapter keeps its buyers to itself: start "
    "Locust without --processes, --master and --worker"
)
NO_LEDGER = "the payment provider's ledger is not read here"


def check_deployed(plan: RunPlan, accounts: int, rounds: int) -> None:
    """Raise `RunImpossible` for what the load test would have to change in a deployed shop."""
    if not plan.sale:
        raise RunImpossible("a deployed shop's sale is made by its operators: name it with --sale")
    missing = [role for role in plan.wanted if role != MAIN and role not in plan.further_sales]
    if missing:
        named = ",".join(f"{role}=ID" for role in missing)
        raise RunImpossible(
            f"the mix {plan.mix} needs further sales: name them, --further-sales {named}"
        )
    if plan.restocks or TIMED in plan.sales or DRAWN in plan.sales:
        raise RunImpossible(
            f"the mix {plan.mix} changes or restocks sales, which no load test does in a deployed "
            "shop: take another one"
        )
    if not rounds or plan.buyers * rounds > accounts:
        raise RunImpossible(
            f"{accounts} accounts are too few for {plan.buyers} users who play "
            f"{rounds or 'endless'} buyers each (--rounds)"
        )


logger = logging.getLogger(__name__)

# Seconds between two writes of the history to disk, and two checks of who is there.
TICK = 0.5
# Workers of this machine are connected within so many seconds.
CONNECTS = 30.0
# A fresh sale opens when every user has started, about: seconds beyond the spawning itself.
GATHERING = 2.0


def attach(events: Events) -> Session:
    """Register a new session for Locust's events."""
    session = Session()
    for event, listener in (
        (events.init_command_line_parser, session.add_arguments),
        (events.init, session.prepare),
        (events.test_start, session.start),
        (events.spawning_complete, session.open_doors),
        (events.report_to_master, session.report_tally),
        (events.worker_report, session.collect_tally),
        (events.test_stop, session.stop),
        (events.quitting, session.close),
        (events.quitting, session.summarize),
        (events.quitting, session.conclude),
        (events.quit, session.tell),
    ):
        event.add_listener(listener)
    return session


class Session:
    """One process's runs, from one start to the next.

    Attributes:
        run: this process's part of the current run; None between runs and in a master.
        tallies: of each load-generating process, by its name; "here" for this one.
        page: follows runs and judges them, on Locust's page or on the command line; None in
            workers, and where the history is judged by somebody else.
    """

    def __init__(self) -> None:
        self.run: Users | RushRun | None = None
        self.tallies: dict[str, Tally] = {}
        self.page: Page | None = None
        self._sender: Sender | None = None
        self._collector: Collector | None = None
        # The name of the current or the last run: a worker's late report may be of one before.
        self._run_name = ""

    @property
    def running(self) -> Users:
        """This process's part of the current run. Raises `RunImpossible` if there is none."""
        if not isinstance(self.run, Users):
            raise RunImpossible("the run has ended; start a new one")
        return self.run

    def give_up(self, error: Exception) -> NoReturn:
        """End Locust, with the reason and an exit code of its own."""
        self._environment.process_exit_code = EXIT_CODES[UNKNOWN]
        raise StopTest(str(error)) from error

    # --- listeners ----------------------------------------------------------------------------

    def add_arguments(self, parser: Any) -> None:
        """Add the options; Locust asks for them again whenever the page shows its form."""
        page = self.page
        if page is None:
            add_options(parser)
        else:
            shops, faults = page.other_shops, offered(page.target)
            mixes = [RUSH, BUYERS] if page.has_adapter else [*MIXES, *([BUYERS] if shops else [])]
            adapter = page.has_adapter
            add_options(parser, page.strategies, faults, shops, mixes=mixes, adapter=adapter)

    def prepare(self, environment: Any, **_: Any) -> None:
        """Prepare this process once: open files, the choice of users, the page."""
        environment.session = self
        # Locust logs why a run is given up or ends, before which gevent would print the exception.
        gevent.get_hub().NOT_ERROR += (StopTest, KeyboardInterrupt)
        self._environment: Environment = environment
        allowed = raise_file_limit()
        options = self._options
        if not isinstance(environment.runner, MasterRunner):
            workers = max(1, options.expect_workers)
            if problem := file_shortage(-(-(options.num_users or 0) // workers), allowed):
                logger.error(problem)
        is_one_of_many = isinstance(environment.runner, MasterRunner | WorkerRunner)
        if is_one_of_many and options.headless and options.shop != OURS and options.mix == BUYERS:
            # Locust's master would go on after a run that could not start. Its workers end by
            # themselves once they are connected; one that still looks for a master that has gone
            # does so for minutes, and Locust does not end it.
            if isinstance(environment.runner, MasterRunner) and options.processes:
                self._wait_for_workers(environment.runner)
            logger.error(ONE_PROCESS)
            sys.exit(EXIT_CODES[UNKNOWN])
        environment.dispatcher_class = functools.partial(Dispatcher, options)
        if isinstance(environment.runner, WorkerRunner):
            self._sender = Sender(environment.runner)
        elif isinstance(environment.runner, MasterRunner):
            self._collector = Collector(environment.runner)
        gevent.spawn(self._watch)
        if environment.web_ui is not None or self._judges_itself:
            self.page = Page(environment, self.tallies, self._shop)
            if self._collector is not None:
                self.page.collected = self._collector.histories

    def start(self, **_: Any) -> None:
        """Choose sale, seed and history, and prepare for the users."""
        self.close()
        self.tallies.clear()
        if self.page is not None:
            self.page.forget()
        try:
            if not isinstance(self._environment.runner, WorkerRunner):
                # Workers get the choice with their options from the master, after this.
                with self.page.starting() if self.page is not None else nullcontext():
                    self._choose(self._options)
            self.run = self._new_run(self._options)
            if self.run is not None:
                self.tallies["here"] = self.run.tally
        except (RunImpossible, ShopRefused, ValueError) as error:
            if self.page is not None:
                self.page.problem = str(error)
            # Locust would go on showing what the last run came to.
            self._environment.stats.clear_all()
            self.give_up(error)

    def open_doors(self, **_: Any) -> None:
        """Let the buyers act: all users have started, which the master says for its workers."""
        if self.run is not None:
            self.run.everyone_is_here.set()

    def report_tally(self, client_id: str, data: dict[str, Any]) -> None:
        """Send a worker's counts to its master."""
        if "here" in self.tallies:
            data["tally"] = self.tallies["here"].to_json()

    def collect_tally(self, client_id: str, data: dict[str, Any]) -> None:
        """Keep a worker's counts in the master, if they are of the current run."""
        tally = Tally(**data.get("tally", {}))
        if tally.run and tally.run == self._run_name:
            self.tallies[client_id] = tally

    def stop(self, **_: Any) -> None:
        """Close the history, and have the run judged if it was started from the page."""
        self.close()
        if self._collector is not None and self._collects:
            self._collector.wait(self._options.workers)
        if self.page is not None:
            self.page.end(getattr(self._options, "workers", 1))

    def close(self, **_: Any) -> None:
        """Close the history; calls after this are not recorded."""
        ended, self.run = self.run, None
        if ended is not None:
            ended.close()
            if self._sender is not None:
                self._sender.end()

    def conclude(self, **_: Any) -> None:
        """Without a page, tell the verdict and end with an exit code that says it."""
        if self.page is None or self._environment.web_ui is not None or self.page.problem:
            return
        if self._environment.runner is not None:
            self._environment.runner.stop()  # what Ctrl-C ends has not been stopped
        self._environment.process_exit_code = EXIT_CODES[self.page.conclude()]

    def tell(self, **_: Any) -> None:
        """Without a page, print the verdict after Locust's last table."""
        if self.page is not None:
            self.page.tell()

    def summarize(self, **_: Any) -> None:
        """Log what the percentiles are percentiles of, and write the totals."""
        options, total = self._options, Tally.sum(self.tallies.values())
        if isinstance(self._environment.runner, WorkerRunner) or not self.tallies:
            return
        if options.totals:
            Path(options.totals).write_text(json.dumps(total.to_json()) + "\n")
        if not options.arrivals:
            logger.info("Closed loop: users waited for their answers, so a slow shop got less load")
            return
        logger.info(
            "Open loop: %g buyers came per second; latency counts from their arrival",
            options.arrivals,
        )
        # The verdict says it as well, where this process judges the run.
        if self.page is None and (total.late or total.unstarted):
            logger.warning(
                "%d buyers of the open loop began late and %d not at all. Take more users.",
                total.late,
                total.unstarted,
            )

    # --- steps --------------------------------------------------------------------------------

    @property
    def _judges_itself(self) -> bool:
        """Whether a run without a page opens its own sale and keeps its history to itself."""
        options, runner = self._options, self._environment.runner
        alone = (options.sale == FRESH or options.tokens) and not options.history
        return bool(options.headless and alone and not isinstance(runner, WorkerRunner))

    def _wait_for_workers(self, master: MasterRunner) -> None:
        """Wait until the processes of this machine are connected, or for `CONNECTS` seconds."""
        give_up = time.monotonic() + CONNECTS
        while master.worker_count < self._options.expect_workers and time.monotonic() < give_up:
            gevent.sleep(TICK)

    @property
    def _collects(self) -> bool:
        """Whether workers send their histories: those of a run that this master has judged."""
        options = self._options
        return bool(getattr(options, "recording", "")) and not options.history

    def _shop(self) -> FullShop:
        options, host = self._options, self._environment.host or ""
        return load_full(host, deployed=bool(options.tokens), owned=options.i_own_this_host)

    @property
    def _options(self) -> Namespace:
        options = self._environment.parsed_options
        assert isinstance(options, Namespace)
        return options

    def _choose(self, options: Namespace) -> None:
        """Decide in one place what all processes of the run share."""
        options.run_name = self._run_name = uuid.uuid4().hex
        options.workers = max(1, getattr(self._environment.runner, "worker_count", 1))
        options.preset = options.preset or CUSTOM
        vars(options).update(PRESETS[options.preset])
        if options.shop != OURS and options.mix == RUSH:
            self._choose_rush(options)
            return
        options.seed = int(options.seed or 0) or random.SystemRandom().randrange(1, 2**31)
        logger.info("The seed of this run is %d", options.seed)
        if options.shop != OURS:
            self._choose_mix(options)
            return
        if options.mix == BUYERS:
            raise RunImpossible(f"the mix {BUYERS} is for shops that are named with --shop")
        parse_weights(options.weights)
        shop = self._shop()
        options.endless = getattr(options, "fault", NONE) != NONE
        plan = replace(plan_of(options), further_sales=parse_sales(options.further_sales))
        plan = replace(plan, gathers=GATHERING + plan.buyers / (options.spawn_rate or 1))
        if options.sale != FRESH:
            limit = find_sale(shop, options.sale).limit
            plan = replace(plan, sale=options.sale, limit=limit)
        if not shop.operates:
            check_deployed(plan, len(read_tokens(options.tokens)), int(options.rounds))
            plan = replace(plan, left_open=dict.fromkeys(("P11", "P14"), NO_LEDGER))
        options.recording = options.history
        if self.page is not None:
            begun = self.page.follow(plan, shop)
            assert isinstance(begun.plan, RunPlan)
            plan = begun.plan
            options.recording = options.history or str(begun.files.path)
            if self._collector is not None:
                self._collector.begin(options.run_name, begun.files.path)
        elif not plan.sale:
            plan = open_sales(shop, plan, plan.gathers_in)
        options.opened, options.others = plan.sale, format_sales(plan.further_sales)

    def _choose_rush(self, options: Namespace) -> None:
        if self.page is None:
            raise RunImpossible("a shop is rushed on Locust's page, or with --headless")
        options.recording, options.endless = "", False
        self._rush = self.page.begin_rush(options)

    def _choose_mix(self, options: Namespace) -> None:
        if options.mix != BUYERS:
            raise RunImpossible(
                f"the mix {options.mix} is for our own shop: take {RUSH} or {BUYERS} for "
                f"{options.shop}"
            )
        if isinstance(self._environment.runner, MasterRunner):
            raise RunImpossible(ONE_PROCESS)
        if self.page is None:
            raise RunImpossible(
                f"the mix {BUYERS} runs on Locust's page, or with --headless and without --sale "
                "and --history"
            )
        if problems := list(wrong_numbers(vars(options))):
            raise RunImpossible("; ".join(problems))
        options.recording, options.endless = "", False
        self._mixed = self.page.begin_mix(options)

    def _new_run(self, options: Namespace) -> Users | RushRun | None:
        """This process's part of the run; buyers are spread over processes, a rush is not."""
        runner = self._environment.runner
        if options.shop != OURS:
            if isinstance(runner, WorkerRunner):
                return None
            if options.mix == BUYERS:
                assert isinstance(self._mixed.sales, MixSale)
                return self._mixed.sales.users(options.run_name, self._report)
            self._rush.start(options.run_name, self._report)
            return self._rush
        if isinstance(runner, MasterRunner):
            return None
        plan = replace(
            plan_of(options), sale=options.opened, further_sales=parse_sales(options.others)
        )
        sender = self._sender if self._collects else None
        users = Shoppers(
            self._shop(),
            plan,
            weights=parse_weights(options.weights),
            worker=getattr(runner, "worker_index", 0),
            # In a fault run, buyers keep arriving until the run is stopped.
            rounds=0 if goes_on(options) else int(options.rounds),
            history=sender.folder() if sender is not None else options.recording,
            report=self._report,
            workers=options.workers,
            run=options.run_name,
            tokens=read_tokens(options.tokens) if options.tokens else None,
        )
        if sender is not None:
            # The master has a history of its own of this process, which it knows the path of.
            sender.begin(options.run_name, Path(users.tally.history))
            users.tally.history = ""
        return users

    def _report(self, call: Finished) -> None:
        self._environment.events.request.fire(
            request_type=call.op,
            name=call.name,
            response_time=call.milliseconds,
            response_length=call.length,
            exception=call.problem,
            context={},
            start_time=time.time() - call.milliseconds / 1000,
        )

    def _watch(self) -> None:
        """Keep the history on disk current, and end the run when all users finished, if asked."""
        while True:
            gevent.sleep(TICK)
            if self.run is not None:
                self.run.flush()
                if self._sender is not None:
                    self._sender.send()
            runner, options = self._environment.runner, self._options
            if runner is None or isinstance(runner, WorkerRunner):
                continue
            if not options.until_done or not options.num_users:
                continue
            finished = Tally.sum(self.tallies.values()).finished
            if runner.state == "running" and finished >= options.num_users:
                logger.info("All users have finished")
                runner.quit() if options.headless else runner.stop()
