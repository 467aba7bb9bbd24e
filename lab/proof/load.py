"""Locust's load on a shop: started headless, with the history of every call."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from development.embedded import ServerUrls
from development.ports import next_free, release
from development.processes import Module
from lab import environment
from lab.stack.stack import Stack
from loadtest.run_plan import RunPlan
from loadtest.sale_roles import format_sales

MASTER_PORT = 5557
"""Where Locust's master listens for its workers, or the next free one."""

LONGEST = 600
"""Seconds that a load may run that ends by itself, whatever happens."""

ENDS_BY_ITSELF = ("--until-done", "--run-time", f"{LONGEST}s")


class LoadFailed(Exception):
    """The load could not be generated; the message ends with Locust's last lines."""


class LocustProcess:
    """Locust in a process of its own, without a page.

    Args:
        plan: which buyers come, and to which sales.
        url: of the shop.
        folder: for the history and for what Locust says.
        records: whether the history is written.
        name: of its files.
    """

    def __init__(
        self,
        plan: RunPlan,
        url: str,
        folder: Path,
        *,
        records: bool = True,
        name: str = "locust",
    ) -> None:
        self._totals = folder / f"{name}-totals.json"
        self._port = next_free(MASTER_PORT) if plan.processes > 1 else 0
        words = [
            "locust",
            "-f",
            "loadtest/locustfile.py",
            "--headless",
            "--host",
            url,
            "--sale",
            plan.sale,
            "--further-sales",
            format_sales(plan.further_sales),
            "--mix",
            plan.mix,
            "--seed",
            str(plan.seed),
            "--users",
            str(plan.buyers),
            "--spawn-rate",
            str(plan.spawn_rate),
            "--history",
            str(folder) if records else "",
            "--arrivals",
            str(plan.arrivals),
            "--totals",
            str(self._totals),
            *(("--rounds", "0") if plan.lasts else ENDS_BY_ITSELF),
            # Expected refusals are no failures; what is one, the checker decides.
            "--exit-code-on-error",
            "0",
            "--loglevel",
            "WARNING",
            "--only-summary",
        ]
        if plan.processes > 1:
            port = str(self._port)
            words += ["--processes", str(plan.processes)]
            words += ["--master-port", port, "--master-bind-port", port]
        self._locust = Module(name, words, home=folder)
        self._locust.log = folder / f"{name}.log"
        self._locust.begin()

    def running(self) -> bool:
        """Return whether the load is still running.

        Raises:
            LoadFailed: it ended for another reason than being done.
        """
        if self._locust.is_running:
            return True
        if self._locust.process is not None and (code := self._locust.process.returncode):
            raise LoadFailed(f"Locust ended with {code}:\n{self._last_words()}")
        return False

    def stop(self) -> None:
        """End it, if it still runs."""
        self._locust.stop()
        release(self._port)

    def totals(self) -> dict[str, Any]:
        """What all buyers have done together, once they have; empty if Locust did not say."""
        try:
            found: dict[str, Any] = json.loads(self._totals.read_text())
        except (OSError, ValueError):
            return {}
        return found

    def _last_words(self) -> str:
        with self._locust.log.open(errors="replace") as log:
            return "".join(deque(log, maxlen=15))


DIRECT = frozenset({"limits", "all"})
"""Mixes in which buyers come to a web process of their own as well, see `direct_buyers`."""

DIRECT_BUYERS = 20


@contextmanager
def direct_buyers(plan: RunPlan, folder: Path, stack: Stack | None) -> Iterator[None]:
    """Let buyers race for more than they may have, where the guard is the only defence.

    What stands before the guard in the shop's own processes (the sold-out hint, the item's lock,
    the combined batches) would cover a guard or a limit that lacks its condition. In the web
    process of these buyers nothing does. They come during the block, if the plan's mix has them.

    Args:
        plan: of the run, whose sales are open.
        folder: for their history, and for what goes wrong.
        stack: the shop's processes, whose servers and secrets the web process uses; None: those of
            this command.

    Raises:
        StackError: their web process does not start.
        LoadFailed: they ended with an error.
    """
    if plan.mix not in DIRECT:
        yield
        return
    urls = stack.urls if stack else ServerUrls.of_environment()
    with Stack(folder / "direct", urls, extra=only_guarded(stack)) as alone, ExitStack() as cleanup:
        alone.start("web")
        # Each comes once: a shop that recovers is judged without them.
        few = replace(plan, buyers=DIRECT_BUYERS, mix="limits", arrivals=0.0, processes=1)
        load = LocustProcess(replace(few, minutes=0.0, faults=()), alone.url, folder, name="direct")
        cleanup.callback(load.stop)
        yield
        load.running()  # not without an error


def only_guarded(stack: Stack | None) -> dict[str, str]:
    """The variables of a web process that sells with nothing but the guard."""
    own = dict(stack.extra) if stack else {}
    # A negative control may have the guard off: then it is off here too.
    off = own.get("LAB_WITHOUT", environment.text("LAB_WITHOUT")).split(",")
    own["LAB_WITHOUT"] = "admission,lock,guard" if "guard" in off else "admission,lock"
    return {**own, "WEB_CONCURRENCY": "1"}
