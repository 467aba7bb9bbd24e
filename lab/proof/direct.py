"""Buyers at a web process of their own, which has the guard as its only defence.

What stands before the guard in the shop's own processes (the sold-out hint, the item's lock, the
combined batches) would cover a guard or a limit that lacks its condition. Here nothing does.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path

from development.errors import StackError
from development.ports import next_free, release
from lab import environment
from lab.proof.load import Load, stop
from lab.stack.stack import Stack, serves
from loadtest.steps import RunPlan

MIXES = frozenset({"limits", "all"})
"""Mixes in which they come."""

MIX = "limits"
"""What they do: they race for more than they may have."""

BUYERS = 20

PORT = 8300
"""Of the web process, or the next free one."""

STARTING = 60.0
"""Seconds for the web process to answer."""

LOOK = 0.1
"""Seconds between two looks whether it does."""


@contextmanager
def direct_buyers(plan: RunPlan, folder: Path, stack: Stack | None) -> Iterator[None]:
    """Let them buy during the block, if the plan's mix has them.

    Args:
        plan: of the run, whose sales are open.
        folder: for their history, and for what goes wrong.
        stack: the shop's processes, whose servers and secrets the web process uses; None: those of
            this command.

    Raises:
        StackError: their web process does not answer.
        LoadFailed: they ended with an error.
    """
    if plan.mix not in MIXES:
        yield
        return
    port = next_free(PORT)
    url = f"http://127.0.0.1:{port}"
    with ExitStack() as cleanup:
        cleanup.callback(release, port)
        log = cleanup.enter_context((folder / "direct-web.log").open("w"))
        web = subprocess.Popen(
            [sys.executable, "-m", "gunicorn", "-c", "gunicorn.conf.py", "shop.wsgi"],
            cwd=environment.PROJECT,
            env={**only_guarded(stack), "SHOP_BIND": "127.0.0.1", "SHOP_PORT": str(port)},
            stdout=log,
            stderr=subprocess.STDOUT,
        )
        cleanup.callback(stop, web)
        _wait_for(web, url)
        load = Load(_once(plan), url, folder, name="direct")
        cleanup.callback(load.stop)
        yield
        load.running()  # not without an error


def _once(plan: RunPlan) -> RunPlan:
    """A few of these buyers, each once: a shop that recovers is judged without them."""
    few = replace(plan, buyers=BUYERS, mix=MIX, arrivals=0.0, processes=1)
    return replace(few, minutes=0.0, faults=())


def _wait_for(web: subprocess.Popen[bytes], url: str) -> None:
    give_up = time.monotonic() + STARTING
    while not serves(f"{url}/readyz"):
        if web.poll() is not None or time.monotonic() > give_up:
            raise StackError("the web process that has only the guard does not answer")
        time.sleep(LOOK)


def only_guarded(stack: Stack | None) -> dict[str, str]:
    """The environment of a web process that sells with nothing but the guard."""
    own = {**stack.urls.as_environment(), **stack.extra} if stack else {}
    everything = {**os.environ, **own, "SHOP_DEMO": "1", "DJANGO_SETTINGS_MODULE": "lab.settings"}
    # A negative control may have the guard off: then it is off here too.
    lines = everything.get("INVENTORY_FEATURE_FLAGS", "guard").split(",")
    everything["INVENTORY_FEATURE_FLAGS"] = "guard" if "guard" in lines else "connections"
    # Faults are for the shop's own processes.
    return {**everything, "SHOP_FAILPOINTS": "", "WEB_CONCURRENCY": "1"}
