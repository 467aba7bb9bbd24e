"""What rushes on a shop have shown, on one screen."""

from __future__ import annotations

import shutil
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, TextIO

from loadtest.buyers import remarks_on
from loadtest.checker import EXIT_CODES, FAIL, PASS, PROPERTIES, UNKNOWN, Verdict
from loadtest.checker.report.document import Unseen
from loadtest.checker.report.headline import HOLDS, STOPPED, SUMMARIES, counted
from loadtest.checker.verdict import overall
from loadtest.rush.plan import Observer
from loadtest.rush.round import Round
from loadtest.shop import Level, Refused, Sold, Unknown

NOT_TRIED = "a rush takes last steps, cancels, and lets units expire at most"


@dataclass(slots=True)
class RushResult:
    """The rounds of a shop.

    Attributes:
        shop, version: of the adapter.
        rounds: those that came to an end.
        smallest: the smallest round that broke a property; None if none did.
        reason: why the rounds stopped before their end; empty if they did not.
        repeat: the command that repeats them.
        untried: the levels that the shop offers and no rush puts to the test.
        stopped: whether somebody ended them early.
    """

    shop: str
    version: str
    rounds: list[Round]
    smallest: Round | None = None
    reason: str = ""
    repeat: str = ""
    untried: tuple[str, ...] = ()
    stopped: bool = False

    def stop(self) -> None:
        """Record that somebody has ended the rounds early; those that are over count."""
        self.stopped = True
        if not self.rounds:
            self.reason = "stopped before the first round was over"

    @property
    def stopped_early(self) -> str:
        """What had been done when somebody ended the rounds early, in a sentence; or nothing."""
        if not self.stopped or not self.rounds:
            return ""
        over = counted(len(self.rounds), "round")
        return f"The rush was stopped early: {over} had ended. The verdict is on these."

    @property
    def verdict(self) -> str:
        """fail if a round broke a property, else unknown if anything was not judged, else pass."""
        outcome = overall(played.outcome for played in self.rounds)
        return UNKNOWN if outcome == PASS and self.reason else outcome

    @property
    def exit_code(self) -> int:
        """0 holds, 1 broken, 2 could not be judged."""
        return EXIT_CODES[self.verdict]

    @property
    def broken_rounds(self) -> int:
        """How many rounds broke a property."""
        return sum(played.outcome == FAIL for played in self.rounds)

    @property
    def judged(self) -> Verdict:
        """What the rounds came to together: of each property the worst that one of them found."""
        findings, reasons = [], {}
        for identity in PROPERTIES:
            found = [
                f for played in self.rounds for f in played.verdict.properties if f.id == identity
            ]
            why = [played.verdict.not_judged.get(identity) for played in self.rounds]
            if found:
                worst = min(found, key=lambda finding: [FAIL, UNKNOWN, PASS].index(finding.verdict))
                times = sum(finding.verdict == worst.verdict for finding in found)
                detail = f"{times} of {len(found)} rounds: {worst.detail}"
                findings.append(replace(worst, detail=detail, problems=[]))
            elif any(why):
                reasons[identity] = [reason for reason in why if reason][-1]
        return Verdict(findings, not_judged=reasons)

    @property
    def unknown(self) -> Counter[str]:
        """The answers to last steps that say neither sold nor refused, with how many there were."""
        return sum((played.unknown for played in self.rounds), Counter[str]())

    @property
    def problems(self) -> Counter[str]:
        """The steps of single buyers that failed, with how many did."""
        return sum((played.problems for played in self.rounds), Counter[str]())

    @property
    def unseen(self) -> Iterator[Unseen]:
        """Yield what these rounds could have missed, although they judged it."""
        served = sum(played.count(Sold) for played in self.rounds)
        if served:
            yield Unseen("an answered order that is lost", served)
        offering = [played for played in self.rounds if played.plan.enough]
        offers = sum(played.count(Sold) + played.count(Refused) for played in offering)
        if offers:
            there_was = f"there was enough for {counted(offers, 'buyer')}"
            yield Unseen("an untrue “sold out”", offers, there_was)
        if cancelled := sum(played.cancelled for played in self.rounds):
            yield Unseen("a cancellation that goes wrong", cancelled)
        if expired := sum(played.expired for played in self.rounds):
            yield Unseen("an expiry that goes wrong", expired)

    @property
    def left_open(self) -> Iterator[str]:
        """Yield what these rounds could not have seen at all, whatever their number."""
        offering = [played for played in self.rounds if played.plan.enough]
        if self.rounds and not offering:
            yield "an untrue “sold out”, unless units were left at the end"
        unclear = sum(played.refused_otherwise for played in offering)
        if unclear:
            yield (
                f"whether {counted(unclear, 'refusal')} were true, although there was enough: they "
                "do not say “sold out” and nothing else"
            )
        if refused := sum(played.not_cancelled for played in self.rounds):
            yield f"what cancelling does to {counted(refused, 'order')}: the shop refused it"
        if any(played.gives_back and played.final.available is None for played in self.rounds):
            yield "whether cancelled units came back: the shop keeps no figure of what is left"
        if any(played.waited_for_carts for played in self.rounds):
            yield (
                "a “sold out” that came too early while few units were left: a cart or a checkout "
                "may have held them"
            )

    @property
    def not_seen(self) -> list[str]:
        """What these rounds could not have seen, although they judged it, for people."""
        return [*(rare.text for rare in self.unseen), *self.left_open]

    def to_json(self) -> dict[str, Any]:
        """Return the result for programs."""
        judged = self.judged.to_json()
        return {
            "shop": self.shop,
            "version": self.version,
            "verdict": self.verdict,
            "reason": self.reason,
            "stopped": self.stopped_early,
            "rounds": [_document(played) for played in self.rounds],
            "broken_rounds": self.broken_rounds,
            "violations": sum(map(violations, self.rounds)),
            "properties": judged["properties"],
            "not_judged": judged["not_judged"],
            "levels_not_tried": dict.fromkeys(self.untried, NOT_TRIED),
            "not_seen": [rare.to_json() for rare in self.unseen],
            "left_open": list(self.left_open),
            "unknown_answers": dict(self.unknown),
            "left_out": dict(self.problems),
            "smallest": list(history(self.smallest)) if self.smallest else [],
            "repeat": self.repeat,
        }

    @property
    def headline(self) -> str:
        """The closing line."""
        broken = f" in {self.broken_rounds} of {len(self.rounds)} rounds"
        word = HOLDS if self.verdict == PASS else SUMMARIES[self.verdict][0]
        early = f" · {STOPPED}" if self.stopped_early else ""
        return f"{word}{broken if self.broken_rounds else ''}{early} · {self.shop} {self.version}"

    @property
    def rows(self) -> list[dict[str, Any]]:
        """Each round as data: what it tried, the books when all was bought, and the answers."""
        return [
            {
                **_document(played),
                "tried": played.plan.tried,
                "of": played.bought.total,
                "left": played.bought.available,
            }
            for played in self.rounds
        ]

    @property
    def remarks(self) -> Iterator[str]:
        """Yield what the reader should know besides the properties."""
        if self.untried:
            yield f"Levels not tried: {', '.join(self.untried)}: {NOT_TRIED}."
        yield from remarks_on(self.unknown, self.problems)


@dataclass(frozen=True, slots=True)
class RushObserver(Observer):
    """Follows all rounds of a rush; by default, ignores them.

    Attributes:
        round: called after each round with the result so far.
    """

    round: Callable[[RushResult], None] = lambda _: None


def violations(played: Round) -> int:
    """Return how many units, uses or orders were one too many, or are missing from the books."""
    broken = played.verdict.broken
    if played.plan.scene is Level.STOCK:
        lost = sum(int(finding.detail.split()[0]) for finding in broken if finding.id == "P3")
        return max(0, played.sold - played.final.total) + lost
    return len(broken)


def history(played: Round) -> Iterator[str]:
    """Yield the fewest calls that show what a round has broken."""
    for found in played.verdict.histories.values():
        for step in found.rows:
            yield f"{step.at} {step.buyer}: {step.asked} → {step.answered}"


def _document(played: Round) -> dict[str, Any]:
    return {
        "scene": played.plan.scene.value,
        "enough": played.plan.enough,
        "units": played.final.total,
        "buyers": played.plan.buyers,
        "verdict": played.outcome,
        "reason": played.verdict.reason,
        "broken": played.broken,
        "sold": played.sold,
        "orders": len(played.bought.orders),
        "available": played.final.available,
        "answered_sold": played.count(Sold),
        "refused": played.count(Refused),
        "unknown": played.count(Unknown),
        "unknown_answers": dict(played.unknown),
        "left_out": dict(played.problems),
        "given_back": played.cancelled,
        "not_given_back": played.not_cancelled,
        "out_of_time": played.expired,
        "left_though_refused": played.left,
        "repeats": played.asked_again,
        "violations": violations(played),
        "oversold": max(
            played.sold - played.final.total, played.verdict.counts.get("oversold", 0), 0
        ),
    }


CLEAR = "\r\x1b[2K"


class Terminal:
    """Shows steps in one line that the next one replaces, or line by line in a file or a pipe.

    Attributes:
        observer: shows the steps of a rush, and its rounds.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._live = stream.isatty()
        self.observer = RushObserver(self.step, round=self.round)

    def step(self, text: str) -> None:
        """Show what is done next."""
        if not self._live:
            self.line(f"{time.strftime('%H:%M:%S')} {text}")
            return
        width = shutil.get_terminal_size().columns - 1
        self._write(CLEAR + (text if len(text) <= width else f"{text[: width - 1]}…"))

    def line(self, text: str) -> None:
        """Show a line that stays."""
        self.clear()
        self._write(f"{text}\n")

    def clear(self) -> None:
        """Remove the line of the last step."""
        if self._live:
            self._write(CLEAR)

    def round(self, result: RushResult) -> None:
        """Show the last round."""
        number, last = len(result.rounds), result.rounds[-1]
        outcome = ", ".join(last.broken) or last.outcome
        units = f"{counted(last.sold, 'unit')} of {last.final.total} sold"
        self.line(f"round {number}: {last.plan.tried}, {units}; {outcome}")

    def _write(self, text: str) -> None:
        self._stream.write(text)
        self._stream.flush()
