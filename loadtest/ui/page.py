"""Locust's page in its process: follows runs, and knows the choices of the form.

Without a page (`--headless`), it follows the one run and tells its verdict.
"""

from __future__ import annotations

import logging
import tempfile
from argparse import Namespace
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import gevent

from loadtest.address import RunImpossible, address_of
from loadtest.calls import Tally
from loadtest.checker import UNKNOWN
from loadtest.checker.report.headline import SUMMARIES
from loadtest.checker.report.terminal import verdict_last
from loadtest.faults.process import NONE
from loadtest.files import Runs
from loadtest.full_shop import FullShop, ShopRefused
from loadtest.mix.behaviours import NAMES
from loadtest.mix.plan import MixPlan
from loadtest.scenarios import parse_weights
from loadtest.shops import OURS, load
from loadtest.ui.other_shops import offered, running
from loadtest.ui.pages import install
from loadtest.ui.referee import Referee
from loadtest.ui.run import JUDGED, JUDGING_NOW, PageRun
from loadtest.ui.rush_run import Rush, RushRun

if TYPE_CHECKING:  # Locust patches the process when it is imported
    from locust.env import Environment

logger = logging.getLogger(__name__)

# Seconds between requests for the shop's strategies, until it answers.
RETRY = 2


class Page(Referee):
    """This project's additions to Locust's page.

    Attributes:
        strategies: names for the start form; empty until the shop has answered.
        target: file that describes what faults act on; empty: none.
        has_adapter: whether the command line chose another shop, by its adapter.
    """

    def __init__(
        self, environment: Any, tallies: dict[str, Tally], shop: Callable[[], FullShop]
    ) -> None:
        """`tallies` are the session's, by process; `shop` loads the adapter."""
        self.strategies: list[str] = []
        self._last_words: list[str] = []
        self._environment: Environment = environment
        options = self._options
        self.target: str = options.target
        self.has_adapter = options.shop != OURS
        self._shops: str = "" if self.has_adapter else options.shops
        # No command-line option: `manage.py prove --fault` is for the command line.
        options.fault = NONE
        super().__init__(Runs(self._folder(options)), lambda: list(tallies.values()))
        if environment.web_ui is not None:
            base = (options.web_base_path or "").rstrip("/")
            install(environment.web_ui, self, base)
            if not self.has_adapter:
                self._shop = shop
                gevent.spawn(self._learn_strategies)

    def conclude(self) -> str:
        """Wait for the verdict, and return it: pass, fail or unknown; `tell` prints it."""
        if (run := self.run) is None:
            return "unknown"
        for line in waiting_for(run):
            print(line, flush=True)
        if self._options.runs:
            self._last_words.append(f"Report: {run.files.report}")
        self._last_words += verdict_last(run.verdict) if run.verdict else []
        return run.outcome

    def tell(self) -> None:
        """Print the verdict, after everything that Locust prints; the closing line is the last.

        A run that could not start has no other verdict than why.
        """
        words = self._last_words
        if self.problem and self._environment.web_ui is None:
            words = [f"  {self.problem}", SUMMARIES[UNKNOWN][0]]
        for line in words:
            print(line, flush=True)

    def begin_rush(self, options: Namespace) -> RushRun:
        """Follow a rush from now on. Raises `RunImpossible`."""
        rush = Rush(
            self._environment.host or "",
            options.shop,
            int(options.stock),
            options.num_users or 1,
            int(options.rounds),
            owned=options.i_own_this_host,
            hosting=self._hosting(options),
        )
        rush.check()
        return self.follow_rush(rush)

    def begin_mix(self, options: Namespace) -> PageRun:
        """Open a sale for a mix of buyers, and follow it from now on.

        Raises:
            RunImpossible: what keeps the sale from being open.
        """
        weights = parse_weights(options.weights, NAMES)
        hosting, host = self._hosting(options), self._environment.host or ""
        with ExitStack() as stack:
            if hosting:
                host = stack.enter_context(running(hosting, options.shop, logger.info))
            plan = MixPlan(
                adapter=options.shop,
                host=host,
                stock=int(options.stock),
                buyers=options.num_users or 1,
                rounds=int(options.rounds),
                seed=int(options.seed),
                arrivals=float(options.arrivals),
                weights=weights,
                owned=options.i_own_this_host,
                hosted=bool(hosting),
            )
            address_of(host, owned=plan.owned)
            shop = load(options.shop, host)
            # What is opened here is closed when the run is over, whatever becomes of it.
            return self.follow(plan, shop, leave=stack.pop_all().close)

    def _hosting(self, options: Namespace) -> str:
        """The command that runs the chosen shop for the run; empty: it runs at the host."""
        return str(options.hosting) if options.shop in self.other_shops else ""

    @property
    def other_shops(self) -> list[str]:
        """Names for the start form; none where the command line has chosen."""
        return offered(self._shops)

    @property
    def _options(self) -> Namespace:
        options = self._environment.parsed_options
        assert isinstance(options, Namespace)
        return options

    def _folder(self, options: Namespace) -> Path:
        if options.runs:
            return Path(options.runs).resolve()
        temporary = tempfile.TemporaryDirectory(prefix="runs-")
        self._environment.events.quit.add_listener(lambda **_: temporary.cleanup())
        return Path(temporary.name).resolve()

    def _learn_strategies(self) -> None:
        """Poll until the shop answers: it may be starting at the same time."""
        while not self.strategies:
            try:
                found = self._shop().strategies()
                self.strategies.extend(strategy["name"] for strategy in found)
            except (ShopRefused, RunImpossible):
                gevent.sleep(RETRY)


# Seconds between two looks at a run that is not judged yet.
LOOK = 0.2
WAITING = {JUDGING_NOW: "Comparing every answer with the shop's books."}


def waiting_for(run: PageRun | RushRun) -> Iterator[str]:
    """Wait until a run is judged, and say what it waits for."""
    said = ""
    while run.phase != JUDGED:
        waiting = WAITING.get(run.phase, "Waiting until nothing changes any more.")
        if waiting != said:
            said = waiting
            yield said
        gevent.sleep(LOOK)
