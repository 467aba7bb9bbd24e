"""A fault run started from the page: the faults, and restocking to keep the shop selling."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

from loadtest.faults import FAULTS, Target, left_out
from loadtest.shops.flash_sale.demo import DemoShop, ShopRefused
from loadtest.steps import Restocks, RunFiles

NONE, ALL = "none", "all"

# Seconds to wait until the last fault is healed.
_HEALING = 120


def offered(target: str) -> list[str]:
    """Return the choices of the start form: faults possible on this target; none without one."""
    try:
        there = Target.read(Path(target)).has() if target else None
    except (OSError, ValueError, TypeError):
        there = None
    if there is None or not sys.platform.startswith("linux"):
        return []
    lacking = left_out(FAULTS, there)
    return [NONE, ALL, *(name for name in FAULTS if name not in lacking)]


class FaultRun:
    """Injects faults during one run, from a separate process, and restocks its sale.

    Args:
        faults: their names.
        target: file that describes what they act on.
        shop, sale, units: where to restock a sold-out item, and by how many units.
        seed: repeats the draw of the faults.
        files: of the run, for the fault log and the history of restocks.
    """

    def __init__(
        self,
        *,
        faults: tuple[str, ...],
        target: str,
        shop: DemoShop,
        sale: str,
        units: int,
        seed: int,
        files: RunFiles,
    ) -> None:
        self._restocks = Restocks(
            sale, units, files.path, lambda: shop.restock(sale, units), (ShopRefused,)
        )
        self.history = str(self._restocks.path)
        self._breaker = subprocess.Popen(
            [
                *(sys.executable, "-m", "loadtest.ui.breaker", target, sale, str(seed)),
                *(str(files.faults), *faults),
            ],
            cwd=Path(__file__).resolve().parents[2],
            stdin=subprocess.PIPE,
        )

    def look(self, figures: dict[str, Any]) -> None:
        """Restock the item when it has been sold out for a while."""
        self._restocks.look(str(figures["item"]), figures["available"])

    def stop(self) -> str:
        """Heal the last fault; return the error, empty on success."""
        assert self._breaker.stdin is not None
        self._restocks.close()
        self._breaker.stdin.close()
        try:
            code = self._breaker.wait(_HEALING)
        except subprocess.TimeoutExpired:
            self._breaker.kill()
            return f"the last fault was not healed within {_HEALING} s"
        return f"the faults ended with an error ({code})" if code else ""
