"""The order of a run's steps, and what is left out where there is nothing to judge."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from loadtest.checker import Verdict
from loadtest.run import Faults, Load, ShopUnderTest, Show, run


class Noted(ShopUnderTest[str], Load, Faults, Show):
    """Plays every part of a run, and notes what it is asked for."""

    def __init__(self, *, rests: bool = True, asks: bool = True, fails: str = "") -> None:
        self.steps: list[str] = []
        self.looks = 2
        self._rests, self._asks, self._fails = rests, asks, fails

    def note(self, step: str) -> None:
        """Note a step; raise if it is to fail."""
        self.steps.append(step)
        if step == self._fails:
            raise RuntimeError(step)

    @contextmanager
    def during(self, what: str) -> Iterator[None]:
        self.note(what)
        try:
            yield
        finally:
            self.steps.append(f"end of {what}")

    def open(self, plan: str) -> None:
        self.note(f"open {plan}")

    def acting(self) -> Any:
        return self.during("buyers")

    def changing(self) -> Any:
        return self.during("changes")

    def breaking(self) -> Any:
        return self.during("faults")

    def following(self) -> Any:
        return self.during("judging so far")

    def running(self) -> bool:
        return self.looks > 0

    def look(self, *, plenty: bool) -> None:
        self.looks -= 1
        self.note("look")

    def wait(self) -> None:
        """Wait for nothing."""

    def recover(self) -> None:
        self.note("recover")

    def rest(self) -> bool:
        self.note("rest")
        return self._rests

    def ask_again(self) -> bool:
        self.note("ask again")
        return self._asks

    def settle(self) -> None:
        self.note("settle")

    def read(self) -> None:
        self.note("read")

    def judge(self, shop: Any = None) -> Verdict:
        self.note("judge")
        return Verdict(reason="judged")


def steps_of(parts: Noted) -> list[str]:
    assert run("10 units", parts, parts, parts, parts).reason == "judged"
    return parts.steps


def test_run_heals_before_buyers_leave_and_reads_at_rest() -> None:
    assert steps_of(Noted()) == [
        "open 10 units",
        "buyers",
        "changes",
        "faults",
        "judging so far",
        "look",
        "look",
        "end of judging so far",
        "end of faults",
        "end of changes",
        "end of buyers",
        "recover",
        "rest",
        "ask again",
        "rest",
        "settle",
        "read",
        "judge",
    ]


def test_run_repeats_no_purchase_in_a_shop_not_at_rest() -> None:
    assert steps_of(Noted(rests=False))[-4:] == ["rest", "settle", "read", "judge"]
    assert steps_of(Noted(asks=False))[-5:] == ["rest", "ask again", "settle", "read", "judge"]


def test_run_that_fails_ends_its_faults_and_its_load() -> None:
    parts = Noted(fails="look")
    with pytest.raises(RuntimeError, match="look"):
        run("10 units", parts, parts, parts, parts)
    ends = [step for step in parts.steps if step.startswith("end of ")]
    assert ends == [f"end of {each}" for each in ("judging so far", "faults", "changes", "buyers")]
