"""The rush, for Locust: `locust -f loadtest/locustfile.py --host http://127.0.0.1:8000`.

Everybody waits for the opening and then acts as the chosen mix of behaviours says (`scenarios/`).
Works alone, with `--processes`, and with a master and workers; each process has buyers of its own
and writes a history of its own. On Locust's page a tab shows whether the shop is right, and every
run ends with a verdict (`ui/`).

Locust's users are a closed loop: they wait for a slow shop and so hide its queue. The percentiles
are those of requests that were sent, not of buyers who would not have waited. With `--arrivals`
buyers come at times of their own (`arrivals.py`), and latency counts from those.
"""

from __future__ import annotations

import json
import logging
import random
import sys
import tempfile
import time
import uuid
from argparse import Namespace
from pathlib import Path
from typing import Any

import gevent
from locust import User, constant, events, task
from locust.env import Environment
from locust.exception import StopTest
from locust.runners import MasterRunner, WorkerRunner
from locust.web import WebUI

# Locust imports this file by its path, from any folder.
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from loadtest import open_files
from loadtest.demo_shop import DemoShop, ShopRefused
from loadtest.options import FRESH, add_options
from loadtest.run import Run, RunImpossible, address_of, find_sale
from loadtest.scenarios import parse_weights, sales_for
from loadtest.tally import Tally
from loadtest.ui import trouble
from loadtest.ui.pages import install
from loadtest.ui.referee import Plan, Referee
from loadtest.ui.runs import Runs

logger = logging.getLogger(__name__)

# How often the history is brought to disk and the end is looked for, in seconds.
TICK = 0.5
# What a run that could not start or go on leaves as the exit code of Locust.
EXIT_IMPOSSIBLE = 2
# A fresh sale opens when everybody is there, about: seconds beyond the spawning itself.
GATHERING = 2.0

# This process's part of the run, from one start to the next.
_run: Run | None = None
# What this process has done, or what each worker has, by its name, in the master.
_tallies: dict[str, Tally] = {}
# Of the run that goes on or was the last, so that what a worker tells late is not mixed up.
_run_name = ""
# In the process that has the page.
_referee: Referee | None = None
# The shop's strategies, for the start form; known once the shop has answered.
_strategies: list[str] = []
# File that says what faults act on; whether it is there is looked at whenever the form is shown.
_target = ""
# A fresh sale that was opened from the page and not used yet: (strategy, stock, limit) and its id.
_opened: tuple[tuple[str, int, int], str] | None = None


class Buyer(User):
    """One user; what they do is in `loadtest.scenarios`, chosen when the run starts."""

    # Who has lived through the sale stays and does nothing: Locust replaces users who leave.
    wait_time = constant(10**6)

    @task
    def live(self) -> None:
        """Live through the sale."""
        assert _run is not None
        try:
            _run.live()
        except RunImpossible as error:
            _give_up(self.environment, error)


@events.init_command_line_parser.add_listener
def add_arguments(parser: Any) -> None:
    """Asked for again whenever the page shows its form."""
    add_options(parser, _strategies, trouble.offered(_target))


@events.init.add_listener
def prepare(environment: Environment, **_: Any) -> None:
    """Once a process: open files, a watch over the run, and what is added to the page."""
    allowed = open_files.raise_limit()
    options = _options(environment)
    users = options.num_users or 0
    if not isinstance(environment.runner, MasterRunner):
        workers = max(1, options.expect_workers)
        if problem := open_files.shortage(-(-users // workers), allowed):
            logger.error(problem)
    gevent.spawn(_watch, environment)
    if environment.web_ui is not None:
        _add_to_page(environment, environment.web_ui, options)


def _add_to_page(environment: Environment, web_ui: WebUI, options: Namespace) -> None:
    global _referee, _target
    _target = options.target
    # Not on the command line, where `manage.py prove --fault` is the way.
    options.fault = trouble.NONE
    folder = options.runs
    if not folder:
        temporary = tempfile.TemporaryDirectory(prefix="runs-")
        folder = temporary.name
        events.quit.add_listener(lambda **_: temporary.cleanup())
    _referee = Referee(Runs(Path(folder).resolve()), lambda: list(_tallies.values()))
    base = (options.web_base_path or "").rstrip("/")
    install(web_ui, _referee, lambda: _open_from_page(environment), base)
    gevent.spawn(_learn_strategies, environment)


def _learn_strategies(environment: Environment) -> None:
    """Until the shop is there: it may start at the same time."""
    while not _strategies:
        try:
            found = DemoShop(address_of(environment.host or "")).strategies()
            _strategies.extend(each["name"] for each in found)
        except (ShopRefused, RunImpossible):
            gevent.sleep(2)


@events.test_start.add_listener
def start(environment: Environment, **_: Any) -> None:
    """Choose sale, seed and history, and get ready for the users."""
    global _run
    close()
    _tallies.clear()
    options = _options(environment)
    try:
        if not isinstance(environment.runner, WorkerRunner):
            # Workers get all this with their options from the master, after this.
            _choose(environment, options)
        if not isinstance(environment.runner, MasterRunner):
            _run = _new_run(environment, options)
            _tallies["here"] = _run.tally
    except (RunImpossible, ShopRefused, ValueError) as error:
        _give_up(environment, error)


def _choose(environment: Environment, options: Namespace) -> None:
    global _run_name
    parse_weights(options.weights)
    options.seed = int(options.seed or 0) or random.SystemRandom().randrange(1, 2**31)
    logger.info("The seed of this run is %d", options.seed)
    options.run_name = _run_name = uuid.uuid4().hex
    options.workers = max(1, getattr(environment.runner, "worker_count", 1))
    address = address_of(environment.host or "")
    options.opened, options.others = options.sale, options.beside
    if options.sale == FRESH:
        options.opened = _fresh_sale(DemoShop(address), options)
        options.others = options.others or ",".join(_sales_beside(DemoShop(address), options))
    limit = find_sale(address, options.opened).limit
    options.recording = options.history
    options.endless = getattr(options, "fault", trouble.NONE) != trouble.NONE
    if _referee is not None:
        shop = DemoShop(address, _others(options))
        folder = _referee.begin(_plan(shop, options, limit), shop)
        options.recording = options.history or str(folder.path)


def _fresh_sale(shop: DemoShop, options: Namespace) -> str:
    global _opened
    wish = (options.strategy, int(options.stock), int(options.limit))
    opened, _opened = _opened, None
    if opened is not None and opened[0] == wish:
        return opened[1]
    strategy, stock, limit = wish
    starts_in = GATHERING + (options.num_users or 1) / (options.spawn_rate or 1)
    return shop.open_sale(stock=stock, limit=limit, strategy=strategy, starts_in=starts_in)


def _sales_beside(shop: DemoShop, options: Namespace) -> list[str]:
    """More sales like it, where the mix fills carts. Nobody looks at them before it opens."""
    like_it = {
        "stock": int(options.stock),
        "limit": int(options.limit),
        "strategy": options.strategy,
    }
    return [shop.open_sale(**like_it, starts_in=0) for _ in range(sales_for(options.mix) - 1)]


def _others(options: Namespace) -> list[str]:
    return [each for each in options.others.split(",") if each]


def _open_from_page(environment: Environment) -> None:
    """Open a sale that anybody can look at before the next run begins in it."""
    global _opened
    options = _options(environment)
    assert _referee is not None
    shop = DemoShop(address_of(environment.host or ""))
    strategy, stock, limit = wish = (options.strategy, int(options.stock), int(options.limit))
    options.sale = FRESH
    options.opened = shop.open_sale(stock=stock, limit=limit, strategy=strategy, starts_in=0)
    _opened = wish, options.opened
    _tallies.clear()
    _referee.shown(_plan(shop, options, limit), shop)


def _plan(shop: DemoShop, options: Namespace, limit: int) -> Plan:
    strategy, fenced = "of an unknown kind", False
    try:
        strategy = shop.figures(options.opened)["strategy"]
        fenced = any(each["fenced"] for each in shop.strategies() if each["name"] == strategy)
    except ShopRefused as error:
        logger.warning("There will be no verdict: %s", error)
    return Plan(
        sale=options.opened,
        strategy=strategy,
        mix=options.mix,
        users=options.num_users or 1,
        seed=int(options.seed or 0),
        arrivals=float(options.arrivals),
        limit=limit,
        fenced=fenced,
        fault=options.fault,
        target=options.target,
    )


def _new_run(environment: Environment, options: Namespace) -> Run:
    def report(
        op: str,
        outcome: str,
        name: str,
        milliseconds: float,
        length: int,
        problem: Exception | None,
    ) -> None:
        environment.events.request.fire(
            request_type=op,
            name=name,
            response_time=milliseconds,
            response_length=length,
            exception=problem,
            context={},
            start_time=time.time() - milliseconds / 1000,
        )

    return Run(
        host=environment.host or "",
        sale=options.opened,
        beside=_others(options),
        mix=options.mix,
        weights=parse_weights(options.weights),
        seed=options.seed,
        worker=getattr(environment.runner, "worker_index", 0),
        # While the shop is being broken, one buyer follows the other until the run is stopped.
        rounds=0 if options.endless else int(options.rounds),
        history=options.recording,
        report=report,
        arrivals=float(options.arrivals) / options.workers,
        run=options.run_name,
    )


def _options(environment: Environment) -> Namespace:
    options = environment.parsed_options
    assert isinstance(options, Namespace)
    return options


def _give_up(environment: Environment, error: Exception) -> None:
    environment.process_exit_code = EXIT_IMPOSSIBLE
    raise StopTest(str(error)) from error


@events.spawning_complete.add_listener
def let_them_in(**_: Any) -> None:
    """Everybody is here; in a distributed run the master says when."""
    if _run is not None:
        _run.everyone_is_here.set()


@events.report_to_master.add_listener
def report_tally(client_id: str, data: dict[str, Any]) -> None:
    """A worker tells what it has done."""
    if "here" in _tallies:
        data["tally"] = _tallies["here"].to_json()


@events.worker_report.add_listener
def collect_tally(client_id: str, data: dict[str, Any]) -> None:
    """The master keeps what its workers tell, of this run and not of one before."""
    tally = Tally(**data.get("tally", {}))
    if tally.run and tally.run == _run_name:
        _tallies[client_id] = tally


def _watch(environment: Environment) -> None:
    """Keep the history on disk fresh, and end the run when everybody is through, if asked to."""
    while True:
        gevent.sleep(TICK)
        if _run is not None:
            _run.flush()
        runner, options = environment.runner, _options(environment)
        if runner is None or isinstance(runner, WorkerRunner):
            continue
        if not options.until_done or not options.num_users:
            continue
        finished = Tally.sum(_tallies.values()).finished
        if runner.state == "running" and finished >= options.num_users:
            logger.info("Everybody is through")
            runner.quit() if options.headless else runner.stop()


@events.test_stop.add_listener
def stop(environment: Environment, **_: Any) -> None:
    """Close the history, and have the run judged if it was started from the page."""
    close()
    if _referee is not None:
        _referee.end(getattr(_options(environment), "workers", 1))


@events.quitting.add_listener
def close(**_: Any) -> None:
    """Close the history; what users do after this is not recorded."""
    global _run
    if _run is not None:
        _run.close()
        _run = None


@events.quitting.add_listener
def say_how_they_came(environment: Environment, **_: Any) -> None:
    """Say what the percentiles are percentiles of."""
    options, total = _options(environment), Tally.sum(_tallies.values())
    if isinstance(environment.runner, WorkerRunner) or not _tallies:
        return
    if options.totals:
        Path(options.totals).write_text(json.dumps(total.to_json()) + "\n")
    if not options.arrivals:
        logger.info("Closed loop: users waited for their answers, so a slow shop was asked less")
        return
    logger.info("Open loop: %g buyers came each second; latency counts from then", options.arrivals)
    if total.late or total.unstarted:
        logger.warning(
            "Of the open loop's buyers %d began late and %d not at all: take more users",
            total.late,
            total.unstarted,
        )
