"""A rush on a shop as a run of Locust's page."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from loadtest.checker import FAIL, PROPERTIES, UNKNOWN, Broken
from loadtest.finished import Report
from loadtest.report import Story
from loadtest.rush import RushResult, rush_shop
from loadtest.rush.result import history, summary
from loadtest.shop import Shop
from loadtest.steps import RunFiles, write_report
from loadtest.ui.run import JUDGED, RUNNING
from loadtest.ui.runs import RunFolder


@dataclass(frozen=True, slots=True)
class Rush:
    """The choices for a rush, and those of a run as far as the page shows them.

    Attributes:
        host: the shop's address.
        adapter: its name, as path.to:Adapter.
        stock: units of each round.
        users: buyers of each round.
        rounds: of each level.
        owned: whether the host may be another machine.
    """

    host: str
    adapter: str
    stock: int
    users: int
    rounds: int
    owned: bool = False

    sale = "one per round"
    mix, loop, fault = "rushing", "all at one moment", ""
    strategy = "as the shop sells"
    arrivals, lasts, fenced = 0.0, False, False
    faults: tuple[str, ...] = ()

    @property
    def repeat(self) -> str:
        """The command that repeats the rush."""
        return (
            f"locust -f loadtest/locustfile.py --headless --until-done --shop {self.adapter} "
            f"--host {self.host} --stock {self.stock} --users {self.users} --rounds {self.rounds}"
            + (" --i-own-this-host" if self.owned else "")
        )


class RushRun:
    """One rush, as far as it is known; what the page asks of it is as in `PageRun`."""

    def __init__(self, shop: Shop, chosen: Rush, folder: RunFolder) -> None:
        self.chosen, self.folder, self.phase = chosen, folder, RUNNING
        self.figures: dict[str, Any] = {}
        self.verdict: dict[str, Any] | None = None
        self.reason = ""
        # Each round is judged when it is over, which is soon.
        self.broken: list[Broken] = []
        self.number = folder.number
        self._shop = shop

    @property
    def outcome(self) -> str:
        """pass, fail or unknown; until then, the phase."""
        return str(self.verdict["verdict"]) if self.verdict else self.phase

    def counted(self, name: str) -> float:
        """Return 0: the shop tells no counters."""
        return 0.0

    def end_load(self, histories: list[str], processes: int) -> None:
        """Do nothing: a rush ends by itself."""

    def play(self, report: Report) -> None:
        """Play all rounds, judge them, and write the report."""
        chosen = self.chosen
        result = rush_shop(
            *(self._shop, chosen.stock, chosen.users, chosen.rounds),
            host=chosen.host,
            folder=self.folder.path,
            owned=chosen.owned,
            repeat=chosen.repeat,
            say=self._say,
            report=report,
        )
        self._conclude(result)

    def stopped(self) -> None:
        """Note that the rush was stopped before its end."""
        reason = "stopped before the rounds were over"
        self._conclude(RushResult(self._shop.name, self._shop.version, [], reason=reason))

    def _say(self, line: str) -> None:
        self.reason = line

    def _conclude(self, result: RushResult) -> None:
        self.reason = result.reason
        self.figures = _figures(result)
        shown = result.smallest or (result.rounds[-1] if result.rounds else None)
        title = f"{self.chosen.users:,} buyers, {self.chosen.stock:,} units, {result.shop}"
        self.verdict = {
            "verdict": result.verdict,
            "title": title,
            "headline": next(result.lines()),
            "reason": result.reason,
            "properties": _findings(result),
            "not_judged": result.not_judged(),
            "counts": {},
        }
        if shown is not None:
            files = RunFiles(shown.folder)
            rounds = {f"round {n}": summary(each) for n, each in enumerate(result.rounds, start=1)}
            story = Story(title, self.chosen.repeat, rounds, shown.reason, shown.plan.buyers)
            write_report(self.folder.report, files, files.histories(), story, shown.verdict)
        (self.folder.path / "verdict.json").write_text(json.dumps(self.verdict, indent=2) + "\n")
        self.phase = JUDGED


def _findings(result: RushResult) -> list[dict[str, Any]]:
    """The properties, the first broken one with the smallest history."""
    evidence = list(history(result.smallest)) if result.smallest else []
    rows = []
    for identity, verdict, detail in result.properties():
        shown, evidence = (evidence, []) if verdict == FAIL else ([], evidence)
        rows.append(
            {
                "id": identity,
                "name": PROPERTIES[identity].name,
                "verdict": verdict,
                "detail": detail,
                "evidence": shown,
            }
        )
    return rows


def _figures(result: RushResult) -> dict[str, Any]:
    """The books of the worst round."""
    if not result.rounds or result.verdict == UNKNOWN:
        return {}
    worst = max(result.rounds, key=lambda each: each.sold - each.books.total)
    return {
        "total": worst.books.total,
        "available": worst.books.available or 0,
        "confirmed": worst.sold,
        "oversold": max(0, worst.sold - worst.books.total),
        "purchases": len(worst.books.orders),
    }
