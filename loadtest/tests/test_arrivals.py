"""Buyers of an open loop."""

from __future__ import annotations

import time
from random import Random

import pytest

from loadtest.run import Arrivals


def moments(seed: int, number: int, rate: float = 1e6) -> list[int]:
    start = time.monotonic() - 60
    arrivals = Arrivals(rate, Random(seed), start)
    dues = [arrivals.wait()[1] for _ in range(number)]
    return [due - dues[0] for due in dues]


def test_the_same_seed_draws_the_same_gaps_at_the_rate_that_was_asked_for() -> None:
    # To a microsecond: they are added to a clock that is read in floating point.
    assert moments(7, 5_000) == pytest.approx(moments(7, 5_000), abs=1_000)
    assert moments(7, 20) != pytest.approx(moments(8, 20), abs=1_000)
    assert 5_000 / (moments(7, 5_000)[-1] / 1e9) == pytest.approx(1e6, rel=0.1)


def test_nobody_comes_before_the_opening() -> None:
    opens_at = time.monotonic() + 0.05
    number, due = Arrivals(1e6, Random(1), opens_at).wait()
    assert number == 0
    assert time.monotonic_ns() >= due >= opens_at * 1e9


def test_a_buyer_who_finds_every_user_busy_is_late_and_counts_from_when_they_meant_to_come() -> (
    None
):
    arrivals = Arrivals(1e6, Random(1), 0.0)
    _, first = arrivals.wait()
    assert arrivals.late == 0
    time.sleep(0.15)
    number, due = arrivals.wait()
    assert (number, arrivals.late) == (1, 1)
    assert due - first < 100_000_000


def test_buyers_that_were_due_and_never_began_are_counted_up_to_those_who_would_have_come() -> None:
    arrivals = Arrivals(1e6, Random(1), 0.0)
    arrivals.wait()
    time.sleep(0.01)
    assert arrivals.overdue(17) == 17
    assert arrivals.overdue(None) > 1_000
    assert Arrivals(0.001, Random(1), 0.0).overdue(None) == 0
