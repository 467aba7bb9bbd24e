"""Locust as the crowd: started headless against a shop, writing what every buyer was told."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lab import environment
from lab.stack.ports import next_free, release

MASTER_PORT = 5557
"""Where Locust's master listens for its workers, or the next free one."""

LONGEST = 600
"""Seconds that a load may run that ends by itself, whatever happens."""


@dataclass(frozen=True, slots=True)
class Crowd:
    """Who comes.

    Attributes:
        buyers: how many at once.
        mix: which behaviours, see ``loadtest/scenarios``.
        seed: repeats their behaviour.
        processes: load-generating processes.
        stays: one buyer follows the other until the load is stopped; else each place is taken by
            one, and the load ends with the last of them.
        arrivals: buyers that come each second, however slow the shop is (an open loop); 0: each
            comes at once and waits for its answers (a closed loop).
    """

    buyers: int
    mix: str
    seed: int
    processes: int = 1
    stays: bool = False
    arrivals: float = 0.0

    @property
    def spawn_rate(self) -> int:
        """Buyers that arrive a second, before the sale opens."""
        return max(100, min(self.buyers, 1000))

    @property
    def gathers_in(self) -> float:
        """Seconds, about, until everybody is there."""
        return 4.0 + self.buyers / self.spawn_rate


class LoadFailed(Exception):
    """The load could not be made; says why, in Locust's last words."""


class Load:
    """A running crowd.

    Args:
        crowd: who comes.
        url: of the shop.
        sales: ids; the first is what most want, the others go into carts too.
        folder: for the history and for what Locust says.
        records: whether the history is written.
    """

    def __init__(
        self,
        crowd: Crowd,
        url: str,
        sales: Sequence[int],
        folder: Path,
        *,
        records: bool = True,
    ) -> None:
        self._log = folder / "locust.log"
        self._totals = folder / "totals.json"
        self._port = next_free(MASTER_PORT) if crowd.processes > 1 else 0
        command = [
            *(sys.executable, "-m", "locust", "-f", "loadtest/locustfile.py", "--headless"),
            *("--host", url, "--sale", str(sales[0])),
            *("--mix", crowd.mix, "--seed", str(crowd.seed)),
            *("--users", str(crowd.buyers), "--spawn-rate", str(crowd.spawn_rate)),
            *("--beside", ",".join(map(str, sales[1:]))),
            *("--history", str(folder) if records else "", "--arrivals", str(crowd.arrivals)),
            *("--totals", str(self._totals)),
            *(("--rounds", "0") if crowd.stays else ("--until-done", "--run-time", f"{LONGEST}s")),
            # Expected refusals are no failures; what is one, the checker decides.
            *("--exit-code-on-error", "0", "--loglevel", "WARNING", "--only-summary"),
        ]
        if crowd.processes > 1:
            port = str(self._port)
            command += ["--processes", str(crowd.processes)]
            command += ["--master-port", port, "--master-bind-port", port]
        with self._log.open("w") as log:
            self._process = subprocess.Popen(
                command, cwd=environment.PROJECT, stdout=log, stderr=subprocess.STDOUT
            )

    def running(self) -> bool:
        """Whether buyers are still at it.

        Raises:
            LoadFailed: it ended for another reason than being done.
        """
        code = self._process.poll()
        if code is None:
            return True
        if code:
            raise LoadFailed(f"Locust ended with {code}:\n{self._last_words()}")
        return False

    def stop(self) -> None:
        """End it, if it still runs."""
        if self._process.poll() is None:
            self._process.terminate()
            try:
                self._process.wait(timeout=15)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        release(self._port)

    def totals(self) -> dict[str, Any]:
        """What all buyers have done together, once they have; empty if Locust did not say."""
        try:
            found: dict[str, Any] = json.loads(self._totals.read_text())
        except (OSError, ValueError):
            return {}
        return found

    def _last_words(self) -> str:
        with self._log.open(errors="replace") as log:
            return "".join(deque(log, maxlen=15))
