"""P12 against planted histories: the wait for the first ok, and the rate of good answers."""

from __future__ import annotations

import json
from typing import Any

import pytest

from loadtest.checker import FAIL, PASS, PROPERTIES, UNKNOWN, Rate, Verdict
from loadtest.tests.busy_run import sold_out_run
from loadtest.tests.simulated_world import World
from loadtest.tests.test_checker import PLANTS, VACUOUS, judged
from loadtest.tests.test_draw import PLANTS as OF_DRAWS

SECOND = 10**9


def recovered(world: World, *faults: tuple[str, float, float]) -> Verdict:
    """Judge P12 of a world with these faults: name, first and last second."""
    world.tick = 1
    log = "".join(
        json.dumps({"fault": name, "start": int(start * SECOND), "end": int(end * SECOND)}) + "\n"
        for name, start, end in faults
    )
    return judged(world, faults=log, properties=["P12"])


def ask(
    world: World,
    since: float,
    op: str,
    status: int,
    code: str = "",
    *,
    times: int = 1,
    each: float = 0.0,
    lasts: float | None = 0.005,
    **about: Any,
) -> None:
    """Plant calls from a second on, so many seconds after each other; None lasts forever."""
    for number in range(times):
        start = since + number * each
        end = start + (lasts or 0)
        world.call(int(start * SECOND), int(end * SECOND), op, status, code, **about)
        if lasts is None:
            world.lines.pop()


def served_after(end: float, *, answers: int = 50) -> World:
    """Return a world in which the API and pages answer well from a second on, for two seconds."""
    world = sold_out_run(3)
    for op in ("payment", "page"):
        ask(world, end, op, 200, times=answers, each=2 / answers)
    return world


SERVED_AGAIN: dict[str, tuple[float | None, str]] = {
    "served again in time": (10.0, PASS),
    "served again too late": (16.0, FAIL),
    "never served again": (None, FAIL),
}
"""The second of the first good answer after a fault that ends at second 9, and the verdict."""


@pytest.mark.parametrize(("first_ok", "expected"), SERVED_AGAIN.values(), ids=SERVED_AGAIN)
def test_recovery_counts_from_the_faults_end_to_the_first_ok(
    first_ok: float | None, expected: str
) -> None:
    world = sold_out_run(3)
    for second in (9, 20):
        ask(world, second, "order", 500, lasts=1)
    if first_ok is not None:
        for op in ("payment", "page"):
            ask(world, 9, op, 200, lasts=first_ok - 9)
            ask(world, first_ok + 3, op, 200, times=20, each=0.01)
    verdict = recovered(world, ("redis killed", 0, 9))
    assert verdict.verdict == expected
    [after] = verdict.aftermaths
    assert after.recovery == (None if first_ok is None else first_ok - 9)


@pytest.mark.parametrize(("earlier", "expected"), [(True, PASS), (False, UNKNOWN)])
def test_recovery_ignores_a_load_that_ends_just_after_a_fault(earlier: bool, expected: str) -> None:
    world = served_after(5)
    ask(world, 9, "order", 500, lasts=1)
    faults = [("redis killed", 8.0, 8.5)]
    if earlier:
        faults.insert(0, ("redis killed", 0.5, 1.0))
    verdict = recovered(world, *faults)
    assert verdict.verdict == expected, verdict.to_json()


@pytest.mark.parametrize("answers", [[], [(409, "sold_out")]])
def test_recovery_is_unknown_if_nobody_could_be_served(answers: list[tuple[int, str]]) -> None:
    world = sold_out_run(3)
    for status, code in answers:
        ask(world, 3, "order", status, code)
    assert recovered(world, ("redis killed", 0, 2)).verdict == UNKNOWN


FAULT = ("postgres killed", 9, 10)

BAD = [
    ("page", 503, ""),
    ("page", 500, ""),
    ("page", 404, ""),
    ("page", 0, "connection_refused"),
    ("order", 503, "busy"),
    ("order", 503, "outcome_unknown"),
    ("order", 0, "timeout"),
    ("look", 0, "connection_refused"),
    ("payment", 500, "internal_error"),
]


@pytest.mark.parametrize(("op", "status", "code"), BAD)
def test_recovery_allows_one_bad_answer_in_a_hundred(op: str, status: int, code: str) -> None:
    world = served_after(13.1)
    ask(world, 13.5, op, status, code)
    assert recovered(world, FAULT).verdict == PASS
    ask(world, 14.5, op, status, code)
    finding = recovered(world, FAULT)["P12"]
    assert finding.verdict == FAIL
    kind = "pages" if op == "page" else "API"
    said = f"settled after postgres killed, 2 of 52 answers ({kind}) were bad at once"
    assert said in finding.detail


@pytest.mark.parametrize(("bad", "expected"), [(2, PASS), (3, FAIL)])
def test_recovery_counts_the_share_of_bad_answers(bad: int, expected: str) -> None:
    world = served_after(13.1, answers=240)
    ask(world, 13.5, "page", 503, times=bad, each=0.1)
    assert recovered(world, FAULT).verdict == expected


@pytest.mark.parametrize(
    ("op", "status", "about"),
    [
        ("order", 409, {"code": "sold_out"}),
        ("order", 409, {"code": "limit_reached"}),
        ("order", 403, {"code": "paused"}),
        ("order", 429, {"code": "rate_limited"}),
        ("refund", 409, {"code": "order_refunded"}),
        ("page", 404, {"order": "another buyer's"}),
    ],
)
def test_recovery_counts_a_correct_refusal_as_good(
    op: str, status: int, about: dict[str, Any]
) -> None:
    world = served_after(13.1)
    ask(world, 13, op, status, times=50, each=0.01, **about)
    assert recovered(world, FAULT).verdict == PASS


def test_recovery_allows_bad_answers_for_three_seconds() -> None:
    world = served_after(13.1)
    ask(world, 9.5, "page", 503, times=30, each=0.1)
    ask(world, 15.5, "page", 503, times=30, each=0.1)
    ask(world, 21.5, "payment", 200, times=50, each=0.01)
    ask(world, 21.5, "page", 200, times=50, each=0.01)
    faults = [FAULT, ("redis killed", 15.2, 18.5)]
    verdict = recovered(world, *faults)
    assert verdict.verdict == PASS
    assert [each.during["pages"] for each in verdict.aftermaths] == [Rate(30, 30), Rate(30, 30)]


def test_recovery_leaves_out_a_call_that_the_next_fault_met() -> None:
    world = served_after(13.1)
    ask(world, 17.5, "page", 503, times=5, lasts=7)
    ask(world, 27.5, "payment", 200, times=5, each=0.1)
    faults = [FAULT, ("redis killed", 23, 24)]
    assert recovered(world, *faults).verdict == PASS
    ask(world, 14.5, "page", 200, lasts=10)  # slow, and yet served
    assert recovered(world, *faults).verdict == PASS
    ask(world, 14.5, "page", 503, times=6, lasts=10)
    verdict = recovered(world, *faults)
    assert "once settled, 6 of 57 answers (pages) were bad and slow" in verdict["P12"].detail
    assert [each.rates["pages"] for each in verdict.aftermaths] == [Rate(57, 6, 6), Rate(0, 0)]


def test_recovery_counts_a_call_that_was_open_for_long() -> None:
    world = served_after(13.1)
    ask(world, 13.2, "page", 200, times=6, lasts=None)
    ask(world, 21, "payment", 200)
    assert recovered(world, FAULT).verdict == PASS
    ask(world, 21.5, "payment", 200)
    assert recovered(world, FAULT).verdict == FAIL


def test_recovery_leaves_out_the_repeats_at_the_end() -> None:
    world = served_after(13.1)
    ask(world, 14.9, "page", 200, times=3, lasts=None)  # the load was stopped
    ask(world, 30, "order", 503, "busy", lasts=1, client="again.key")
    assert recovered(world, FAULT).verdict == PASS


def test_recovery_refuses_a_bad_answer_after_every_fault() -> None:
    world, faults = sold_out_run(3), []
    for number in range(4):
        end = 10.0 * (number + 1)
        faults.append((f"fault {number}", end - 1, end))
        for op in ("payment", "page"):
            ask(world, end + 3.1, op, 200, times=30, each=0.05)
        ask(world, end + 4, "page", 503)
    verdict = recovered(world, *faults)
    assert (
        "settled after all faults, 4 of 124 answers (pages) were bad at once"
        in verdict["P12"].detail
    )


@pytest.mark.parametrize(("bad", "expected"), [(5, PASS), (6, FAIL)])
def test_recovery_allows_few_slow_bad_answers(bad: int, expected: str) -> None:
    world = served_after(13.1)
    ask(world, 13.5, "page", 503, times=bad, each=0.1, lasts=2)
    finding = recovered(world, FAULT)["P12"]
    assert finding.verdict == expected, finding.detail


@pytest.mark.parametrize(
    ("before", "first_ok", "expected"),
    [(0.0, 15.5, FAIL), (1.0, 15.5, PASS), (1.0, 17.5, FAIL), (8.0, 19.5, PASS), (8.0, 20.5, FAIL)],
)
def test_recovery_allows_a_slow_shop_less_than_twice_the_time(
    before: float, first_ok: float, expected: str
) -> None:
    world = sold_out_run(3)
    ask(world, 0, "payment", 200, lasts=before)
    ask(world, 10, "payment", 200, lasts=first_ok - 10)
    for op in ("payment", "page"):
        ask(world, 24, op, 200, times=50, each=0.01)
    finding = recovered(world, FAULT)["P12"]
    assert finding.verdict == expected, finding.detail


@pytest.mark.parametrize("missing", ["payment", "page"])
def test_recovery_with_too_few_answers_proves_nothing(missing: str) -> None:
    world = sold_out_run(3)
    ask(world, 10, "payment", 200)
    for op in ("payment", "page"):
        ask(world, 13.0, op, 200, times=19 if op == missing else 50, each=0.01)
    finding = recovered(world, FAULT)["P12"]
    assert finding.verdict == UNKNOWN
    assert "too few good answers" in finding.detail


def test_recovery_of_a_shop_that_was_bad_before_is_unknown() -> None:
    world = served_after(13.1)
    ask(world, 10, "payment", 200)
    ask(world, 13.5, "page", 503, times=5, each=0.1)
    ask(world, 5.0, "look", 200, times=20, each=0.1)
    assert recovered(world, FAULT).verdict == FAIL
    ask(world, 5.0, "look", 0, "timeout", times=2, each=0.1)
    finding = recovered(world, FAULT)["P12"]
    assert finding.verdict == UNKNOWN
    assert "before the first fault already: 2 of" in finding.detail


def test_properties_name_their_planted_violations() -> None:
    planted = {*PLANTS, *(f"P13: {name}" for name in VACUOUS)}
    planted |= {f"P12: {name}" for name in SERVED_AGAIN}
    planted |= {f"P24: {name}" for name in OF_DRAWS}
    assert {f"{each.id}: {each.planted}" for each in PROPERTIES.values()} <= planted
