"""The closing line: what was sold, and at what rate buyers were answered while the sale was on."""

from __future__ import annotations

import pytest

from loadtest.history import AGAIN, FAIL, INFO, NEVER, OK, Operation
from loadtest.report.headline import Pace, Speed, headline, meanings, wrapped

SECOND = 1_000_000_000
COUNTS = {"held": 60, "confirmed": 40, "total": 100, "oversold": 0, "available": 0}


def call(
    start: float, end: float, op: str = "order", outcome: str = OK, **more: object
) -> Operation:
    began = Operation(int(start * SECOND), "c#1", op, "c", "b", "k", 1, "1", "2", 1)
    began.end = int(end * SECOND) if end != NEVER else NEVER
    began.outcome, began.status = outcome, 201 if outcome == OK else 409
    for name, value in more.items():
        setattr(began, name, value)
    return began


def speed(*calls: Operation) -> Speed | None:
    pace = Pace()
    for each in calls:
        pace.add(each)
    return pace.speed()


def test_the_rate_counts_answers_between_the_first_accepted_purchase_and_the_last_answer_to_one():
    found = speed(
        call(0.0, 0.5, outcome=FAIL),  # not open yet
        call(1.0, 2.0),
        call(1.0, 1.5, "look"),
        call(1.0, 3.0, outcome=FAIL),  # sold out: an answer as well
        call(3.0, 9.0, "read"),  # after the sale
    )
    assert found == Speed(answers=3, seconds=2.0, p99=2000.0)
    assert found.rate == 1.5


@pytest.mark.parametrize(
    "other",
    [
        call(1.2, NEVER, outcome=INFO, status=0),
        call(1.2, 60.0, outcome=INFO, status=0),  # no answer came
        call(1.2, 60.0, client=f"{AGAIN}1"),
        call(1.2, 1.3, "restock"),
    ],
)
def test_what_no_buyer_was_answered_during_the_sale_does_not_count(other):
    assert speed(call(1.0, 2.0), other) == Speed(answers=1, seconds=1.0, p99=1000.0)


def test_in_an_open_loop_a_request_waits_from_when_it_was_due():
    assert speed(call(1.0, 2.0, due=SECOND // 2)) == Speed(answers=1, seconds=1.0, p99=1500.0)


def test_without_an_accepted_purchase_there_is_no_rate():
    assert speed(call(1.0, 2.0, outcome=FAIL), call(1.0, 2.0, "look")) is None


def test_one_in_a_hundred_is_slower_than_the_99th_percentile():
    calls = [call(1.0, 1.0 + number / 100) for number in range(1, 101)]
    found = speed(*calls)
    assert found is not None
    assert found.p99 == pytest.approx(990.0)


def test_the_closing_line_names_the_outcome_first():
    fast = Speed(9_624, 2.0, 95.4)
    sold = ["100 of 100 sold to 2,000 buyers", "0 oversold", "4,812 requests/s", "p99 95 ms"]
    assert headline("pass", 2000, COUNTS, fast, 21) == ["PROVED", *sold, "21 faults survived"]
    assert headline("fail", 2000, COUNTS, fast, 1) == ["BROKEN", *sold, "1 fault injected"]
    assert headline("unknown", 0, {}, None, 0) == ["COULD NOT BE JUDGED"]
    assert headline("pass", 0, COUNTS, None, 0)[1] == "100 of 100 sold"
    assert headline("pass", 1, COUNTS, None, 0)[1] == "100 of 100 sold to 1 buyer"


def test_a_long_line_is_broken_between_its_parts():
    assert list(wrapped(["aa", "bb", "cc"], 7)) == ["aa · bb", "cc"]
    assert list(wrapped(["aa", "bb", "cc"], 12)) == ["aa · bb · cc"]


def test_every_count_says_what_it_counts():
    counts = {**COUNTS, "orders": 1, "ok": 2, "fail": 3, "sold_out": 4, "info": 5}
    found = {meaning: number for number, meaning in meanings(counts)}
    assert len(found) == 7
    assert found["units reserved or paid for"] == 100
