"""Buyers who do not come through the web: a process that buys with the guard as its only defence.

What stands before the guard in the shop's own processes (the sold-out hint, the item's lock, the
combined batches) would cover a guard or a limit that lacks its condition. Here nothing does.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from lab import environment
from lab.stack.stack import Stack

MIXES = frozenset({"limits", "all"})
"""Mixes in which they come."""

START = "import django; django.setup(); from lab.proof.direct_buyers import main; main()"

LEAVING = 30.0
"""Seconds to finish what they are at."""


class Direct:
    """The process, from its start to its end.

    Args:
        sales: ids by role.
        opening: of the main sale, in seconds of the monotonic clock.
        seed: repeats what they want.
        folder: for their history, and for what goes wrong.
        stack: the shop's processes, whose servers and secrets these buyers use; None: those of this
            command.
    """

    def __init__(
        self,
        sales: Mapping[str, int],
        opening: float,
        seed: int,
        folder: Path,
        stack: Stack | None,
    ) -> None:
        wanted = {"sales": sales, "opening": opening, "seed": seed, "folder": str(folder)}
        with (folder / "direct.log").open("w") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-c", START, json.dumps(wanted)],
                cwd=environment.PROJECT,
                env=_environment(stack),
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=subprocess.STDOUT,
            )

    def stop(self) -> None:
        """Let them finish the purchases that they are at."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(LEAVING)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def _environment(stack: Stack | None) -> dict[str, str]:
    own = {**stack.urls.as_environment(), **stack.extra} if stack else {}
    everything = {**os.environ, **own, "SHOP_DEMO": "1", "DJANGO_SETTINGS_MODULE": "lab.settings"}
    # A negative control may have the guard off: then it is off here too.
    lines = everything.get("INVENTORY_FEATURE_FLAGS", "guard").split(",")
    everything["INVENTORY_FEATURE_FLAGS"] = "guard" if "guard" in lines else "connections"
    return everything
