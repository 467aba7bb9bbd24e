"""Kill or pause a process at a failpoint, on an order that the proof leaves in a folder.

A file named like a failpoint is an order: ``kill`` or ``stop``. The first process to reach the
failpoint claims the order by renaming the file to ``<failpoint>.<pid>``, and executes it.
"""

from __future__ import annotations

import os
import signal
from pathlib import Path

from inventory import failpoints

ORDERS = {"kill": signal.SIGKILL, "stop": signal.SIGSTOP}


class FailpointOrders:
    """Executes the orders found in a folder; a hook for :func:`inventory.failpoints.arm`."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._name = f"{folder}/"

    def __call__(self, failpoint: str) -> None:
        """Execute the order for this failpoint, if there is one."""
        # A purchase of the demo comes by here as well: a third of the time of opening the file.
        if not os.path.exists(self._name + failpoint):  # noqa: PTH110
            return
        order_file = self._folder / failpoint
        try:
            order = order_file.read_text()
            # A rename succeeds for exactly one of several processes.
            order_file.rename(f"{order_file}.{os.getpid()}")
        except FileNotFoundError:
            return
        os.kill(os.getpid(), ORDERS[order])


def obey(folder: str) -> None:
    """Arm this process's failpoints with the orders of a folder; do nothing for an empty name."""
    if folder:
        failpoints.arm(FailpointOrders(Path(folder)))
