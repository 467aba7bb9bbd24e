"""Locust's load on a shop: started headless, with the history of every call."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from development.ports import next_free, release
from lab import environment
from loadtest.roles import MAIN, format_sales

MASTER_PORT = 5557
"""Where Locust's master listens for its workers, or the next free one."""

LONGEST = 600
"""Seconds that a load may run that ends by itself, whatever happens."""


ENDS_BY_ITSELF = ("--until-done", "--run-time", f"{LONGEST}s")


@dataclass(frozen=True, slots=True)
class LoadProfile:
    """Which buyers come, how many and how.

    Attributes:
        buyers: how many at once.
        mix: which behaviours, see ``loadtest/scenarios``.
        seed: repeats their behaviour.
        processes: load-generating processes.
        stays: buyers keep arriving until the load is stopped; else each user plays one buyer, and
            the load ends with the last of them.
        arrivals: buyers per second, however slow the shop is (an open loop); 0: all come at once
            and wait for their answers (a closed loop).
    """

    buyers: int
    mix: str
    seed: int
    processes: int = 1
    stays: bool = False
    arrivals: float = 0.0

    @property
    def spawn_rate(self) -> int:
        """Users started per second, before the sale opens."""
        return max(100, min(self.buyers, 1000))

    @property
    def gathers_in(self) -> float:
        """Seconds, about, until all users have started."""
        return 4.0 + self.buyers / self.spawn_rate


class LoadFailed(Exception):
    """The load could not be generated; the message ends with Locust's last lines."""


class Load:
    """A running profile.

    Args:
        profile: which buyers come.
        url: of the shop.
        sales: ids by role.
        folder: for the history and for what Locust says.
        records: whether the history is written.
    """

    def __init__(
        self,
        profile: LoadProfile,
        url: str,
        sales: Mapping[str, int],
        folder: Path,
        *,
        records: bool = True,
    ) -> None:
        self._log = folder / "locust.log"
        self._totals = folder / "totals.json"
        self._port = next_free(MASTER_PORT) if profile.processes > 1 else 0
        command = [
            *(sys.executable, "-m", "locust", "-f", "loadtest/locustfile.py", "--headless"),
            *("--host", url, "--sale", str(sales[MAIN])),
            *("--mix", profile.mix, "--seed", str(profile.seed)),
            *("--users", str(profile.buyers), "--spawn-rate", str(profile.spawn_rate)),
            *("--beside", format_sales({r: str(pk) for r, pk in sales.items() if r != MAIN})),
            *("--history", str(folder) if records else "", "--arrivals", str(profile.arrivals)),
            *("--totals", str(self._totals)),
            *(("--rounds", "0") if profile.stays else ENDS_BY_ITSELF),
            # Expected refusals are no failures; what is one, the checker decides.
            *("--exit-code-on-error", "0", "--loglevel", "WARNING", "--only-summary"),
        ]
        if profile.processes > 1:
            port = str(self._port)
            command += ["--processes", str(profile.processes)]
            command += ["--master-port", port, "--master-bind-port", port]
        with self._log.open("w") as log:
            self._process = subprocess.Popen(
                command, cwd=environment.PROJECT, stdout=log, stderr=subprocess.STDOUT
            )

    def running(self) -> bool:
        """Whether the load is still running.

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
