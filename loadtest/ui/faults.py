"""A run in which the shop is broken: the faults, and the units that keep it selling meanwhile."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

from loadtest.demo_shop import DemoShop, ShopRefused
from loadtest.faults import FAULTS, Target, left_out
from loadtest.history import Recorder

NONE, ALL = "none", "all"

# Seconds for the last fault to be healed.
_HEALING = 120
# Looks in a row at an empty shelf before it is filled, so that buyers are told that it is empty.
_EMPTY = 2
_NAME = "restocks"


def offered(target: str) -> list[str]:
    """What can be chosen: faults that this target can have; nothing if there is no target."""
    try:
        there = Target.read(Path(target)).has() if target else None
    except (OSError, ValueError, TypeError):
        there = None
    if there is None or not sys.platform.startswith("linux"):
        return []
    lacking = left_out(FAULTS, there)
    return [NONE, ALL, *(name for name in FAULTS if name not in lacking)]


class Trouble:
    """What is done to the shop during one run.

    Args:
        fault: one of those that are offered, other than `NONE`.
        target: file that says what faults act on.
        shop, sale, units: where to put new units when the shelf is empty, and how many.
        seed: repeats the draw of the faults.
        folder: of the run, for the log of the faults and the history of the restocks.
    """

    def __init__(
        self,
        *,
        fault: str,
        target: str,
        shop: DemoShop,
        sale: str,
        units: int,
        seed: int,
        folder: Path,
    ) -> None:
        self._shop, self._sale, self._units = shop, sale, units
        self._recorder = Recorder(folder / f"{_NAME}.jsonl")
        self.history = str(self._recorder.path)
        self._empty = 0
        self._times = 0
        names = [name for name in offered(target) if name not in (NONE, ALL)]
        log = str(folder / "faults.jsonl")
        self._breaker = subprocess.Popen(
            [
                *(sys.executable, "-m", "loadtest.ui.breaker", target, sale, str(seed), log),
                *(names if fault == ALL else [fault]),
            ],
            cwd=Path(__file__).resolve().parents[2],
            stdin=subprocess.PIPE,
        )

    def look(self, figures: dict[str, Any]) -> None:
        """Fill the shelf when it has been empty for a while."""
        self._empty = 0 if figures["available"] else self._empty + 1
        if self._empty >= _EMPTY:
            self._empty = 0
            self._restock(str(figures["item"]))

    def stop(self) -> str:
        """No more faults; returns when the last is healed. What went wrong; empty if nothing."""
        assert self._breaker.stdin is not None
        self._recorder.close()
        self._breaker.stdin.close()
        try:
            code = self._breaker.wait(_HEALING)
        except subprocess.TimeoutExpired:
            self._breaker.kill()
            return f"the last fault was not healed within {_HEALING} s"
        return f"the faults ended with an error ({code})" if code else ""

    def _restock(self, item: str) -> None:
        self._times += 1
        call = f"{_NAME}#{self._times}"
        self._recorder.invoke(
            call,
            "restock",
            client=_NAME,
            buyer=_NAME,
            sale=self._sale,
            item=item,
            quantity=self._units,
        )
        status, code = 200, ""
        try:
            self._shop.restock(self._sale, self._units)
        except ShopRefused as error:
            # It may have happened: unknown, as for any other client.
            status, code = 0, str(error)
        self._recorder.complete(call, "restock", status=status, code=code)
