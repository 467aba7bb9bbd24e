"""What is judged while a run goes on: all that is certain, and nothing that the verdict unsays."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

import pytest

from loadtest.checker import FAIL, Broken, judge, judge_so_far
from loadtest.checker import snapshot as s
from loadtest.history import INVOKE, OK
from loadtest.tests import planted_orders
from loadtest.tests.busy_run import SEEDS, busy_run, sold_out_run
from loadtest.tests.simulated_run import Simulation
from loadtest.tests.simulated_world import ITEM, World
from loadtest.tests.test_checker import PLANTS, run_for

LIVE = ("P1", "P2", "P5", "P8", "P20")
"""Properties of which a run can be certain before its end."""


def so_far(world: World, *, faults: bool = False) -> dict[str, Broken]:
    with TemporaryDirectory() as folder:
        files = world.write(Path(folder))
        for later in (files.final, files.ledger, files.deliveries, files.terms):
            later.unlink()
        found = judge_so_far(files, faults=faults)
    return {each.id: each for each in found}


def failed(world: World) -> set[str]:
    """Which of them the verdict finds broken at the end."""
    with TemporaryDirectory() as folder:
        verdict = judge(world.write(Path(folder)), properties=LIVE)
    return {each.id for each in verdict.properties if each.verdict == FAIL}


def cuts(world: World) -> list[World]:
    """The run as it looked after each record of its history."""
    lines = sorted(world.lines, key=lambda line: (line.time, line.values["event"] != INVOKE))
    return [
        replace(
            world,
            lines=lines[:number],
            during=[each for each in world.during if each[0] <= lines[number - 1].time],
        )
        for number in range(1, len(lines) + 1)
    ]


def small_run(seed: int) -> World:
    """A run with lost answers, repeats, restocks and orders that end, of some hundred records."""
    return Simulation(Random(seed), stock=6, limit=2, clients=8, trouble=0.2).run()


@pytest.mark.parametrize(
    "seed", [3, *(pytest.param(seed, marks=pytest.mark.long) for seed in (2, 11))]
)
def test_correct_run_is_not_broken_at_any_record(seed: int) -> None:
    world = small_run(seed)
    outcomes = Counter(end.values["event"] for _, end in world.calls("order"))
    assert outcomes[OK] > 3
    assert outcomes[FAIL]
    assert [so_far(each) for each in cuts(world)] == [{}] * len(world.lines)


@pytest.mark.parametrize(
    ("plant", "answers"),
    [
        ("P5: two answers for a key", ["201 order o1", "200 order o99"]),
        ("P5: repeated key refused", ["201 order o1", "409 limit_reached"]),
        ("P8: promised order not readable", ["201 order o1", "404"]),
        ("P8: paid and awaiting again", ["200 paid", "200 awaiting_payment"]),
        ("P20: busy after the commit", ["503 busy", "200 order"]),
        ("P20: promised order not found by its payment", ["201 order", "404 not_found"]),
        ("P20: server error without a fault", ["500 internal_error"]),
        ("P20: open with nothing available", ["200 open 0 available"]),
        ("P20: invalid request granted", ["201"]),
    ],
)
def test_planted_violation_is_seen_with_its_calls(plant: str, answers: list[str]) -> None:
    world = busy_run(3)
    PLANTS[plant](world)
    identity = plant.partition(":")[0]
    broken = so_far(world)[identity]
    assert len(broken.history) == len(answers)
    for step, answer in zip(broken.history, answers, strict=True):
        assert step.answered.startswith(answer)
    assert identity in failed(world)


def test_oversell_in_a_snapshot_shows_the_purchases_around_it() -> None:
    world = World(end=100)
    # Two units: the third promise is one too many, and the second was under way with it.
    for start, end in ((1, 2), (3, 9), (8, 10), (11, 12)):
        world.call(start, end, "order", 201, order=f"o{start}", quantity=1)
    assert so_far(world) == {}
    world.during.append((13, [s.Item(ITEM, 2, 0, 4, 0, 0)]))
    found = so_far(world)
    assert sorted(found) == ["P1", "P2"]
    assert "4 sold or held of 2, 2 too many" in found["P1"].reason
    assert found["P1"].before == 1
    assert [each.answered for each in found["P1"].history] == ["201 order o3", "201 order o8"]
    assert found["P1"].history[0].at == "2,000.0 – 8,000.0 ms"
    assert found["P1"].history[0].asked.startswith("order: 1 of sale 1, key planted-")


def test_oversell_is_seen_in_the_books_before_any_answer() -> None:
    world = World(during=[(13, [s.Item(ITEM, 2, -1, 3, 0, -1)])], end=100)
    world.call(1, 20, "order", 201, order="o1")
    del world.lines[-1]
    assert [(each.before, each.history) for each in so_far(world).values()] == [(0, [])]


@pytest.mark.parametrize(
    "plant",
    [
        pytest.param(plant, marks=[] if plant.partition(":")[0] in LIVE else [pytest.mark.long])
        for plant in PLANTS
    ],
)
def test_broken_property_stays_broken_in_the_verdict(plant: str) -> None:
    world = run_for(plant, SEEDS[1])
    PLANTS[plant](world)
    assert set(so_far(world)) <= failed(world)


SEEN_AT_ONCE = [each for each in planted_orders.STOCK_PLANTS if each[:3] in ("P5:", "P8:")]


@pytest.mark.parametrize(
    "plant",
    [
        SEEN_AT_ONCE[0],
        *(pytest.param(each, marks=pytest.mark.long) for each in SEEN_AT_ONCE[1:]),
    ],
)
def test_broken_property_at_any_record_is_broken_in_the_end(plant: str) -> None:
    world = sold_out_run(7)
    PLANTS[plant](world)
    assert set().union(*(so_far(each) for each in cuts(world))) <= failed(world)


def test_server_error_is_not_a_failure_during_faults() -> None:
    world = busy_run(3)
    world.later("page", 500, "internal_error", order="o1")
    assert set(so_far(world)) == {"P20"}
    world = busy_run(3)
    world.later("page", 502, "", order="o1")
    assert so_far(world, faults=True) == {}


def test_property_without_evidence_is_not_judged_meanwhile(tmp_path: Path) -> None:
    world = busy_run(3)
    PLANTS["P20: sold out told as an error"](world)
    files = world.write(tmp_path)
    assert judge_so_far(files, not_judged=["P20"]) == []


def test_oversell_after_a_double_return_shows_who_gave_back() -> None:
    world = World(end=100)
    for start, order in ((1, "kept"), (2, "returned")):
        world.call(start, start + 3, "order", 201, order=order)
    for start in (10, 11):
        world.call(start, 13, "cancel", 200, order="returned")
    # Two units: one is back, so that the second purchase of these is one too many.
    for start, order in ((20, "right"), (30, "wrong")):
        world.call(start, start + 1, "order", 201, order=order)
    world.during.append((32, [s.Item(ITEM, 2, 0, 3, 0, 0)]))
    history = so_far(world)["P1"].history
    assert [step.asked.split(",")[0] for step in history] == [
        "order: 1 of sale 1",
        "cancel: order returned",
        "cancel: order returned",
        "order: 1 of sale 1",
        "order: 1 of sale 1",
    ]
    assert [step.answered for step in history if step.answered.startswith("201")] == [
        "201 order returned",
        "201 order right",
        "201 order wrong",
    ]
