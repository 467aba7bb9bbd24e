"""The rush, for Locust: `locust -f loadtest/locustfile.py --host http://127.0.0.1:8000 --sale 1`.

Everybody waits for the opening and then acts as the chosen mix of behaviours says (`scenarios/`).
Works alone, with `--processes`, and with a master and workers; each process has buyers of its own
and writes a history of its own.

Locust's users are a closed loop: they wait for a slow shop and so hide its queue. The percentiles
are those of requests that were sent, not of buyers who would not have waited.
"""

from __future__ import annotations

import logging
import random
import sys
import time
from argparse import Namespace
from pathlib import Path
from typing import Any

import gevent
from locust import User, constant, events, task
from locust.env import Environment
from locust.exception import StopTest
from locust.runners import MasterRunner, WorkerRunner

# Locust imports this file by its path, from any folder.
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from loadtest import open_files
from loadtest.run import Run, RunImpossible, address_of, find_sale
from loadtest.scenarios import MIXES, parse_weights

logger = logging.getLogger(__name__)

# How often the history is brought to disk and the end is looked for, in seconds.
TICK = 0.5
# What a run that could not start or go on leaves as the exit code of Locust.
EXIT_IMPOSSIBLE = 2

# This process's part of the run, from one start to the next.
_run: Run | None = None
# How many users have lived through the sale: this process's, or by worker in the master.
_finished: dict[str, int] = {}


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
    """What can be chosen on the command line and in Locust's own start form."""
    parser.add_argument("--sale", default="1", env_var="LOADTEST_SALE", help="Id of the sale")
    parser.add_argument(
        "--mix",
        choices=list(MIXES),
        default="rush",
        env_var="LOADTEST_MIX",
        help="Which buyers come",
    )
    parser.add_argument(
        "--weights",
        default="",
        env_var="LOADTEST_WEIGHTS",
        help="Other weights than the mix's, such as buy_once=60,look_around=0",
    )
    parser.add_argument(
        "--rounds",
        type=int,
        default=1,
        env_var="LOADTEST_ROUNDS",
        help="Buyers that each user plays, one after the other; 0 for no end",
    )
    parser.add_argument(
        "--seed",
        type=int,
        default=0,
        env_var="LOADTEST_SEED",
        help="Repeats the behaviour of a run; 0 picks one and logs it",
    )
    parser.add_argument(
        "--history",
        default="",
        env_var="LOADTEST_HISTORY",
        help="Folder for the history of every call; empty for none",
    )
    parser.add_argument(
        "--until-done",
        action="store_true",
        env_var="LOADTEST_UNTIL_DONE",
        include_in_web_ui=False,
        help="End the run when every user has lived through the sale",
    )


@events.init.add_listener
def prepare(environment: Environment, **_: Any) -> None:
    """Once a process: open files, and a watch over the run."""
    allowed = open_files.raise_limit()
    options = _options(environment)
    users = options.num_users or 0
    if not isinstance(environment.runner, MasterRunner):
        workers = max(1, options.expect_workers)
        if problem := open_files.shortage(-(-users // workers), allowed):
            logger.error(problem)
    gevent.spawn(_watch, environment)


@events.test_start.add_listener
def start(environment: Environment, **_: Any) -> None:
    """Look at the sale, open the history, and draw the seed."""
    global _run
    close()
    _finished.clear()
    options = _options(environment)
    if not isinstance(environment.runner, WorkerRunner):
        # Workers get their options, and so the seed, from the master after this.
        options.seed = int(options.seed or 0) or random.SystemRandom().randrange(1, 2**31)
        logger.info("The seed of this run is %d", options.seed)
    try:
        if isinstance(environment.runner, MasterRunner):
            parse_weights(options.weights)
            find_sale(address_of(environment.host or ""), options.sale)
        else:
            _run = _new_run(environment, options)
    except (RunImpossible, ValueError) as error:
        _give_up(environment, error)


def _new_run(environment: Environment, options: Namespace) -> Run:
    def report(
        op: str, name: str, milliseconds: float, length: int, problem: Exception | None
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
        sale=options.sale,
        mix=options.mix,
        weights=parse_weights(options.weights),
        seed=options.seed,
        worker=getattr(environment.runner, "worker_index", 0),
        rounds=int(options.rounds),
        history=options.history,
        report=report,
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
def report_finished(client_id: str, data: dict[str, Any]) -> None:
    """A worker tells how many of its users are through."""
    data["finished"] = _run.finished if _run is not None else 0


@events.worker_report.add_listener
def collect_finished(client_id: str, data: dict[str, Any]) -> None:
    """The master adds up what its workers tell."""
    _finished[client_id] = data.get("finished", 0)


def _watch(environment: Environment) -> None:
    """Keep the history on disk fresh, and end the run when everybody is through, if asked to."""
    while True:
        gevent.sleep(TICK)
        if _run is not None:
            _run.flush()
            _finished["here"] = _run.finished
        runner, options = environment.runner, _options(environment)
        if runner is None or isinstance(runner, WorkerRunner):
            continue
        if not options.until_done or not options.num_users:
            continue
        if runner.state == "running" and sum(_finished.values()) >= options.num_users:
            logger.info("Everybody is through")
            runner.quit() if options.headless else runner.stop()


@events.test_stop.add_listener
@events.quitting.add_listener
def close(**_: Any) -> None:
    """Close the history; what users do after this is not recorded."""
    global _run
    if _run is not None:
        _run.close()
        _run = None
