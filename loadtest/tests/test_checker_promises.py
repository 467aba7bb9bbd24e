"""P14 to P20, and what the others say of parts, against runs of many sales: right and damaged."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from loadtest.checker import FAIL, PASS, PROPERTIES, UNKNOWN
from loadtest.checker import snapshot as s
from loadtest.tests import (
    planted_answers,
    planted_orders,
    planted_stock,
    test_checker,
    test_contract,
    test_recovery,
)
from loadtest.tests.busy_run import SEEDS, busy_run
from loadtest.tests.simulated_order import clock
from loadtest.tests.simulated_run import Simulation
from loadtest.tests.simulated_world import ITEM, SALE, World
from loadtest.tests.test_checker import judged

PLANTS = planted_orders.PLANTS | planted_answers.PLANTS

# What every simulated run can be judged by; P12 needs faults, P13 luck, P21 walkers, and
# P22 and P23 vouchers and bills.
JUDGED = [name for name in PROPERTIES if name not in ("P12", "P13", "P21", "P22", "P23")]


@st.composite
def worlds(draw: st.DrawFn, trouble: float = 0.2) -> World:
    return Simulation(
        draw(st.randoms(use_true_random=False)),
        stock=draw(st.integers(0, 8)),
        limit=draw(st.integers(1, 3)),
        clients=draw(st.integers(1, 10)),
        trouble=trouble,
    ).run()


@pytest.mark.long
@settings(max_examples=300, deadline=None)
@given(worlds())
def test_every_correct_history_passes(world: World) -> None:
    verdict = judged(world, properties=JUDGED)
    others = [each for each in verdict.properties if each.verdict != PASS]
    # Not every run has carts, or buyers who peep at other buyers' orders.
    assert {(each.id, each.verdict) for each in others} <= {("P17", UNKNOWN), ("P18", UNKNOWN)}, (
        others
    )


@settings(max_examples=50, deadline=None)
@given(worlds())
def test_without_a_final_snapshot_everything_is_unknown(world: World) -> None:
    verdict = judged(world, snapshot=None, properties=list(PROPERTIES))
    assert {each.verdict for each in verdict.properties} == {UNKNOWN}
    assert verdict.verdict == UNKNOWN


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("plant", PLANTS)
def test_a_planted_violation_turns_its_property_red(plant: str, seed: int) -> None:
    world = busy_run(seed)
    PLANTS[plant](world)
    identity = plant.partition(":")[0]
    finding = judged(world, properties=[identity])[identity]
    assert finding.verdict == FAIL
    assert finding.evidence


@pytest.mark.parametrize("seed", SEEDS)
def test_the_runs_that_violations_are_planted_in_pass(seed: int) -> None:
    verdict = judged(busy_run(seed), properties=JUDGED)
    assert [each.verdict for each in verdict.properties] == [PASS] * len(JUDGED), verdict


def test_what_each_property_says_is_planted_to_see_it_fail_is_planted() -> None:
    planted = {*PLANTS, *planted_stock.PLANTS}
    planted |= {f"P12: {name}" for name in test_recovery.SERVED_AGAIN}
    planted |= {f"P13: {name}" for name in test_checker.VACUOUS}
    planted |= {f"P21: {name}" for name in test_contract.WRONG}
    assert {f"{each.id}: {each.planted}" for each in PROPERTIES.values()} <= planted


def test_busy_after_the_commit_is_seen_under_faults_too(tmp_path: Path) -> None:
    """By the order's own time: under faults a first good answer may be a repeat of itself."""
    faults = tmp_path / "faults"
    faults.write_text('{"fault": "postgres killed", "start": 1, "end": 2}\n')
    world = busy_run(1)
    assert judged(world, faults=faults, properties=["P20"]).verdict == PASS
    PLANTS["P20: busy after the commit"](world)
    assert judged(world, faults=faults, properties=["P20"]).verdict == FAIL


def test_an_overload_is_no_untrue_answer() -> None:
    world = busy_run(1)
    for op, code in (("page", ""), ("mail", ""), ("order", "busy"), ("cancel", "outcome_unknown")):
        world.later(op, 503, code, key="", quantity=0)
    assert judged(world, properties=["P20"]).verdict == PASS
    world.later("mail", 500, key="", quantity=0)
    assert judged(world, properties=["P20"]).verdict == FAIL


def test_a_mail_that_was_sent_twice_under_one_number_is_right_under_faults(tmp_path: Path) -> None:
    faults = tmp_path / "faults"
    faults.write_text('{"fault": "celery killed", "start": 1, "end": 2}\n')
    world = busy_run(1)
    PLANTS["P19: mail sent again though nothing broke"](world)
    assert judged(world, faults=faults, properties=["P19"]).verdict == PASS
    PLANTS["P19: two confirmations"](world)
    assert judged(world, faults=faults, properties=["P19"]).verdict == FAIL


def without(*kinds: type) -> Callable[[World], None]:
    def forget(world: World) -> None:
        world.rows = [row for row in world.rows if not isinstance(row, kinds)]

    return forget


def no_deadlines(world: World) -> None:
    for order in world.of(s.Order):
        world.change(order, pay_before=0)


def no_terms(world: World) -> None:
    world.terms.clear()


def no_peeping(world: World) -> None:
    strangers = {end.call for _, end in world.calls("read", "payment", "cancel", "refund")}
    world.lines = [each for each in world.lines if each.call not in strangers]


def no_carts(world: World) -> None:
    for line in world.lines:
        line.values.pop("cart", None)


@pytest.mark.parametrize(
    ("identity", "forget"),
    [
        ("P14", without(s.Event)),
        ("P14", no_deadlines),
        ("P15", no_terms),
        ("P16", without(s.Event)),
        ("P16", no_deadlines),
        ("P17", no_carts),
        ("P18", no_peeping),
        ("P19", without(s.Event)),
        ("P19", without(s.Buyer)),
    ],
    ids=lambda each: getattr(each, "__name__", each),
)
def test_without_its_evidence_a_property_is_unknown(
    identity: str, forget: Callable[[World], None]
) -> None:
    world = busy_run(1)
    forget(world)
    assert judged(world, properties=[identity]).verdict == UNKNOWN


@pytest.mark.parametrize(("identity", "file"), [("P14", "ledger"), ("P19", "deliveries")])
def test_without_a_file_its_property_is_unknown(identity: str, file: str) -> None:
    assert judged(busy_run(1), **{file: None}, properties=[identity]).verdict == UNKNOWN


@pytest.mark.parametrize(
    ("plant", "bound", "verdict"),
    [
        ("P14: refund that never comes", "refund_seconds", UNKNOWN),
        ("P16: order that never expires", "expiry_seconds", PASS),
    ],
)
def test_what_takes_its_time_is_wrong_only_when_it_is_too_late(
    plant: str, bound: str, verdict: str
) -> None:
    world = busy_run(1)
    PLANTS[plant](world)
    properties = [plant.partition(":")[0]]
    assert judged(world, properties=properties).verdict == FAIL
    assert judged(world, properties=properties, **{bound: 10**6}).verdict == verdict


@pytest.mark.parametrize(("seconds", "verdict"), [(1, PASS), (2, FAIL)])
def test_a_sale_may_be_shown_with_the_price_of_a_second_ago(seconds: int, verdict: str) -> None:
    world = busy_run(1)
    (first,) = [each for each in world.terms if each.sale == SALE]
    changed = world.end + 10
    after = {"asked": clock(changed), "done": clock(changed), "price": first.price + 1}
    world.terms.append(replace(first, **after))
    planted_answers.look(world, changed + seconds, "open", 3, amount=first.price)
    assert judged(world, properties=["P14"])["P14"].verdict == verdict


def test_what_came_back_in_part_may_have_come_back_wholly_at_any_time_later() -> None:
    """Two units: one is cancelled, the other expires after another buyer was refused both."""
    world = World(end=100)
    first = world.call(1, 2, "order", 201, quantity=2, order="o1")
    world.call(10, 11, "cancel", 200, key="part", quantity=1, order="o1")
    world.call(20, 21, "order", 409, "sold_out", quantity=2)
    second = world.call(40, 41, "order", 201, quantity=2, order="o2")
    world.rows = [
        s.Item(ITEM, 2, 0, 2, 0, 0),
        s.Sale(SALE, ITEM, 2),
        s.Reservation("1", ITEM, "one", first, 2, s.RELEASED, returned=1),
        s.Reservation("2", ITEM, "two", second, 2, s.HELD),
        s.Order("o1", "1", SALE, ITEM, "one", first, 2, status="expired"),
        s.Order("o2", "2", SALE, ITEM, "two", second, 2, status="awaiting_payment"),
    ]
    assert judged(world, properties=["P8"]).verdict == PASS
