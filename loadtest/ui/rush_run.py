"""A rush on a shop as a run of Locust's page."""

from __future__ import annotations

import threading
import time
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import gevent

from loadtest.address import RunImpossible, address_of
from loadtest.calls import Report, Tally
from loadtest.checker import FAIL, PROPERTIES, UNKNOWN, Broken, judge_so_far
from loadtest.files import RunFolder
from loadtest.rush import RushResult, rush_shop
from loadtest.rush.result import RushObserver
from loadtest.rush.round import Round
from loadtest.rush.verdict import write_rush
from loadtest.shops import load
from loadtest.ui import other_shops
from loadtest.ui.run import JUDGED, RUNNING


@dataclass(frozen=True, slots=True)
class Rush:
    """The choices for a rush.

    Attributes:
        host: the shop's address, unless it is hosted.
        adapter: its name, or path.to:Adapter.
        stock: units of each round.
        buyers: of each round.
        rounds: of each level.
        owned: whether the host may be another machine.
        hosting: the command that runs the shop for the rush; empty: it runs at `host`.
    """

    host: str
    adapter: str
    stock: int
    buyers: int
    rounds: int
    owned: bool = False
    hosting: str = ""

    def check(self) -> None:
        """Raise `RunImpossible` if it cannot be played."""
        if not self.hosting:
            address_of(self.host, owned=self.owned)
            load(self.adapter, self.host)

    @property
    def repeat(self) -> str:
        """The command that repeats the rush."""
        if self.hosting:
            size = f"--stock {self.stock} --buyers {self.buyers} --rounds {self.rounds}"
            return f'make prove-shop SHOP={self.adapter} ARGS="{size}"'
        size = f"--stock {self.stock} --users {self.buyers} --rounds {self.rounds}"
        return (
            "python -m loadtest --headless --until-done "
            f"--shop {self.adapter} --host {self.host} {size}"
            + (" --i-own-this-host" if self.owned else "")
        )


class RushRun:
    """One rush in one process, whatever the number of Locust's: its requests leave at one moment.

    What the page asks of it is as in `PageRun`, and what the session asks as in `Run`.

    Attributes:
        result: of the rounds so far.
        tally: of its purchases.
        everyone_is_here: set when all users have started.
    """

    def __init__(self, plan: Rush, files: RunFolder) -> None:
        self.plan, self.files, self.phase = plan, files, RUNNING
        self.result = RushResult(plan.adapter, "", [])
        self.verdict: dict[str, Any] | None = None
        self.read_at = time.monotonic()
        self.reason = ""
        # Each round is judged when it is over, which is soon.
        self.broken: list[Broken] = []
        self.tally = Tally()
        self.everyone_is_here = threading.Event()

    @property
    def outcome(self) -> str:
        """pass, fail or unknown; until then, the phase."""
        return str(self.verdict["verdict"]) if self.verdict else self.phase

    @property
    def figures(self) -> dict[str, Any]:
        """The books of the worst round."""
        if not self.result.rounds or self.result.verdict == UNKNOWN:
            return {}
        worst = max(self.result.rounds, key=lambda played: played.sold - played.final.total)
        return {
            "total": worst.final.total,
            "available": worst.final.available or 0,
            "confirmed": worst.sold,
            "oversold": max(0, worst.sold - worst.final.total),
            "purchases": len(worst.bought.orders),
        }

    def start(self, run: str, report: Report) -> None:
        """Play in the meantime, as the run of this name."""
        self.tally.run = run
        self._playing = gevent.spawn(self.play, report)

    def flush(self) -> None:
        """Do nothing: each round writes its own history."""

    def close(self) -> None:
        """End the rush; if it is not over, its verdict is on the rounds that are."""
        if self.phase == RUNNING:
            self._playing.kill()
            self.result.stop()
            self._conclude(self.result)

    def play(self, report: Report) -> None:
        """Play all rounds when all users have started, judge them, and write the report."""
        self.everyone_is_here.wait()
        plan, result = self.plan, self.result
        running, hosted = other_shops.running, bool(plan.hosting)
        shop = running(plan.hosting, plan.adapter, self._say) if hosted else nullcontext(plan.host)
        try:
            with shop as host:
                result = rush_shop(
                    load(plan.adapter, host),
                    plan.stock,
                    plan.buyers,
                    plan.rounds,
                    host=host,
                    folder=self.files.path,
                    owned=plan.owned,
                    repeat=plan.repeat,
                    observer=RushObserver(self._say, self.tally.counting(report), self._so_far),
                )
                self._say("stopping the shop")
        except RunImpossible as error:
            result = self._nothing(str(error))
        self._conclude(result)
        self.tally.finished = plan.buyers

    def _nothing(self, reason: str) -> RushResult:
        return RushResult(self.plan.adapter, "", [], reason=reason)

    def _say(self, line: str) -> None:
        self.reason = line

    def _so_far(self, result: RushResult) -> None:
        """Show the rounds so far, and what is broken in the first that breaks anything."""
        self.result, played = result, result.rounds[-1]
        self.read_at = time.monotonic()
        if played.outcome == FAIL and not self.broken:
            self.broken = _broken(played)

    def _conclude(self, result: RushResult) -> None:
        self.result, self.reason = result, result.reason
        self.verdict = write_rush(result, self.files)
        self.phase = JUDGED


def _broken(played: Round) -> list[Broken]:
    """What a round has broken, as far as can be with the calls that show it."""
    why = {finding.id: finding.detail for finding in played.verdict.broken}
    shown = judge_so_far(played.files, not_judged=PROPERTIES.keys() - why.keys())
    known = {finding.id for finding in shown}
    return shown + [
        Broken(identity, PROPERTIES[identity].name, text, 0, [])
        for identity, text in why.items()
        if identity not in known
    ]
