"""The checker against histories that are right, and against every way of being wrong."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from loadtest.checker import BY_ANSWERS, FAIL, PASS, PROPERTIES, UNKNOWN, Verdict, judge
from loadtest.checker import snapshot as s
from loadtest.checker.evidence import ALLOWED
from loadtest.checker.verdict import Problem, overall
from loadtest.files import RunFiles
from loadtest.history import operations
from loadtest.run_plan import RunPlan
from loadtest.tests import planted_answers, planted_orders
from loadtest.tests.busy_run import SEEDS, busy_run, orders_with, sold_out_run
from loadtest.tests.model_shop import clock
from loadtest.tests.simulated_run import Simulation
from loadtest.tests.simulated_world import ITEM, SALE, World

PLANTS = planted_orders.STOCK_PLANTS | planted_orders.PLANTS | planted_answers.PLANTS

# What every simulated run can be judged by; P12 needs faults, P13 luck, P22 and P23
# vouchers and bills, P24 a draw.
JUDGED = [name for name in PROPERTIES if name not in ("P12", "P13", "P22", "P23", "P24")]


def judged(world: World, *, without: str = "", faults: str = "", **arguments: Any) -> Verdict:
    """The verdict on a run, without one of its files and with a log of faults."""
    with TemporaryDirectory() as folder:
        files = world.write(Path(folder))
        if without:
            getattr(files, without).unlink()
        if faults:
            files.faults.write_text(faults)
        return judge(files, **{"properties": JUDGED, **arguments})


def run_for(plant: str, seed: int) -> World:
    """The run that a violation is planted in."""
    return sold_out_run(seed) if plant in planted_orders.STOCK_PLANTS else busy_run(seed)


@pytest.mark.parametrize(("refused", "returned", "verdict"), [(1, 3, PASS), (3, 1, FAIL)])
def test_purchase_after_sold_out_is_right_if_stock_came_back(
    refused: int, returned: int, verdict: str
) -> None:
    world = sold_out_run(3)
    end = world.end
    released = world.of(s.Reservation)[0]
    world.change(released, state=s.RELEASED)
    order = f"o{released.id}"
    world.call(end + returned, end + returned + 1, "cancel", 200, order=order)
    world.call(end + refused, end + refused + 1, "order", 409, "sold_out")
    key = world.call(end + 5, end + 6, "order", 201, order="o99")
    world.copy(world.order, id="o99", key=key, reservation="99", buyer="x")
    assert judged(world, properties=["P8"]).verdict == verdict


def test_refusal_after_a_restock_is_not_justified_by_old_stock() -> None:
    world = World(end=100)
    for number in range(3):
        order = f"o{number}"
        key = world.call(1, 5, "order", 201, order=order)
        world.rows.append(s.Reservation(str(number), ITEM, str(number), key, 1, s.HELD))
        world.rows.append(s.Order(order, str(number), SALE, ITEM, str(number), key, 1))
    world.rows += [s.Item(ITEM, 5, 2, 3, 0, 2), s.Sale(SALE, ITEM, 1)]
    world.call(10, 20, "restock", 200, quantity=2)
    early = world.call(6, 15, "order", 409, "sold_out")
    assert judged(world, properties=["P7"]).verdict == PASS, "the restock may have come after it"
    late = world.call(21, 25, "order", 409, "sold_out")
    finding = judged(world, properties=["P7"])["P7"]
    assert finding.verdict == FAIL
    assert late in finding.detail
    assert early not in finding.detail


def test_property_is_unknown_without_its_evidence_files() -> None:
    world = sold_out_run(3)
    for movement in world.of(s.Movement):
        world.change(movement, token=0)
    verdict = judged(world, without="ledger", properties=list(PROPERTIES))
    unknown = {each.id for each in verdict.properties if each.verdict == UNKNOWN}
    assert unknown == {"P9", "P11", "P12", "P14", "P17", "P18", "P22", "P23", "P24"}
    assert verdict.verdict == UNKNOWN


def nobody_refused(world: World) -> None:
    refused = {line.call for line in world.lines if line.values.get("code") == "sold_out"}
    world.lines = [line for line in world.lines if line.call not in refused]


def nothing_sold(world: World) -> None:
    world.lines, world.rows = [], [s.Item(ITEM, 4, 4, 0, 0, 4), s.Sale(SALE, ITEM, 1)]


VACUOUS = {"nobody refused": nobody_refused, "nothing sold": nothing_sold}
"""Runs that put P13's question: they break no property, and show nothing."""


@pytest.mark.parametrize("forget", VACUOUS.values(), ids=VACUOUS)
def test_run_that_tested_nothing_is_unknown(forget: Callable[[World], None]) -> None:
    world = sold_out_run(7)
    forget(world)
    verdict = judged(world, properties=["P1", "P13"])
    assert verdict["P13"].verdict == UNKNOWN
    assert verdict.verdict == UNKNOWN


def test_run_of_payments_without_a_capture_is_unknown() -> None:
    world = sold_out_run(7)
    enough = RunPlan(buyers=20, seed=7, mix="walkers").enough
    found = judged(world, properties=["P13"], enough={"captured": enough["captured"]})
    assert found.verdict == PASS
    world.ledger.clear()
    assert judged(world, properties=["P13"], enough=enough)["P13"].verdict == UNKNOWN
    rush = RunPlan(buyers=20, seed=7, mix="rush").enough
    assert judged(world, properties=["P13"], enough={**rush, "duplicate": 0}).verdict == PASS


FAULT = '{"fault": "redis killed", "start": 1, "end": 2}\n'
# A fault that spares the buyers.
SPARING = '{"fault": "redis slow", "start": 1, "end": 2, "leaves_doubt": false}\n'


def test_run_under_faults_without_any_unknown_answer_is_vacuous() -> None:
    world = sold_out_run(7)
    assert judged(world, properties=["P13"]).verdict == PASS
    assert judged(world, faults=FAULT, properties=["P13"]).verdict == UNKNOWN
    assert judged(world, faults=SPARING, properties=["P13"]).verdict == PASS, "no reason for doubt"
    # A buyer who asked again and was answered had been in doubt.
    buyer = world.buyer_of(world.order)
    world.later("order", 500, "internal_error", key=world.order.key, buyer=buyer)
    assert judged(world, faults=FAULT, properties=["P13"]).verdict == PASS


@given(st.lists(st.sampled_from([PASS, FAIL, UNKNOWN])))
def test_verdict_passes_only_if_all_properties_pass(verdicts: list[str]) -> None:
    assert (overall(verdicts) == PASS) == (set(verdicts) == {PASS})
    assert (overall(verdicts) == FAIL) == (FAIL in verdicts)


def test_property_that_does_not_exist_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="P99"):
        judge(RunFiles(tmp_path), properties=["P99"])


def test_counts_show_how_many_units_were_oversold() -> None:
    world = sold_out_run(7)
    (item,) = world.of(s.Item)
    held = item.held + item.confirmed
    world.change(item, total=1)
    counts = judged(world).counts
    assert counts["oversold"] == held - 1 == 3
    assert counts["orders"] == counts["ok"] == 4
    assert counts["info"] == 0
    calls = world.calls("order")
    refused = {call.values["key"] for call, end in calls if end.values["code"] == "sold_out"}
    assert counts["sold_out"] == len(refused) > 0


def test_counts_name_the_worst_moment_of_an_oversell() -> None:
    world = sold_out_run(7)
    for number, too_many in enumerate((1, 3, 2)):
        over = s.Item(world.item.id, 4, 0, 4 + too_many, 0, 0)
        world.during.append((world.end + number, [over]))
    verdict = judged(world)
    assert "P1" in {finding.id for finding in verdict.broken}
    assert verdict.counts["oversold"] == 3


def test_run_with_errors_outside_faults_proves_nothing() -> None:
    world = sold_out_run(7)
    world.call(world.end + 1, world.end + 2, "cancel", 500, "internal_error")
    assert judged(world, properties=["P13"]).verdict == UNKNOWN
    # Under faults it may.
    world.call(world.end + 1, world.end + 2, "order", 500, "internal_error")
    assert judged(world, faults=FAULT, properties=["P13"]).verdict == PASS


def one_unit_too_many(world: World) -> None:
    world.change(world.item, total=3)


def no_order_left(world: World) -> None:
    world.rows.remove(world.order)


def two_orders_of_a_key(world: World) -> None:
    order = world.order
    asked = next(call.values for call, _ in world.calls("order") if call.values["key"] == order.key)
    again = {name: asked[name] for name in ("key", "buyer", "quantity")}
    world.later("order", 200, order="o99", **again)


@pytest.mark.parametrize(
    ("damage", "identity"),
    [(one_unit_too_many, "P1"), (no_order_left, "P3"), (two_orders_of_a_key, "P5")],
)
def test_answers_alone_show_what_is_broken(damage: Callable[[World], None], identity: str) -> None:
    world = sold_out_run(7)
    # Buyers are shown their own orders, and neither movements nor events.
    world.rows = [r for r in world.rows if isinstance(r, s.Item | s.Sale | s.Reservation | s.Order)]
    shown = [each for each in BY_ANSWERS if each != "P18"]
    verdict = judged(world, properties=shown, books=False)
    assert verdict.verdict == PASS, verdict.to_json()
    damage(world)
    assert [each.id for each in judged(world, properties=shown, books=False).broken] == [identity]


@pytest.mark.parametrize(("more", "verdict"), [(1, PASS), (0, FAIL)])
def test_key_that_was_answered_is_refused_only_if_reused(more: int, verdict: str) -> None:
    world = sold_out_run(7)
    order = world.order
    asked = next(call.values for call, _ in world.calls("order") if call.values["key"] == order.key)
    again = {name: asked[name] for name in ("key", "buyer", "sale", "item")}
    quantity = order.quantity + more
    world.later("order", 422, "idempotency_key_reused", **again, quantity=quantity)
    assert judged(world)["P5"].verdict == verdict


@pytest.mark.long
@settings(max_examples=300, deadline=None)
@given(
    random=st.randoms(use_true_random=False),
    stock=st.integers(0, 8),
    limit=st.integers(1, 3),
    clients=st.integers(1, 10),
)
def test_history_that_is_correct_passes(
    random: Random, stock: int, limit: int, clients: int
) -> None:
    verdict = judged(Simulation(random, stock=stock, limit=limit, clients=clients).run())
    others = [each for each in verdict.properties if each.verdict != PASS]
    # Not every run has carts, or buyers who peep at other buyers' orders.
    assert {(each.id, each.verdict) for each in others} <= {("P17", UNKNOWN), ("P18", UNKNOWN)}, (
        others
    )


def test_properties_are_unknown_without_a_final_snapshot() -> None:
    verdict = judged(busy_run(3), without="final", properties=list(PROPERTIES))
    assert {each.verdict for each in verdict.properties} == {verdict.verdict} == {UNKNOWN}


@pytest.mark.parametrize("seed", [SEEDS[0], pytest.param(SEEDS[1], marks=pytest.mark.long)])
@pytest.mark.parametrize("plant", PLANTS)
def test_planted_violation_breaks_its_property(plant: str, seed: int) -> None:
    world = run_for(plant, seed)
    PLANTS[plant](world)
    identity = plant.partition(":")[0]
    finding = judged(world, properties=[identity])[identity]
    assert finding.verdict == FAIL
    assert finding.evidence


@pytest.mark.parametrize("seed", SEEDS)
def test_planted_violation_runs_pass_without_the_violation(seed: int) -> None:
    verdict = judged(busy_run(seed))
    assert [each.verdict for each in verdict.properties] == [PASS] * len(JUDGED), verdict
    of_stock = sorted({plant.partition(":")[0] for plant in planted_orders.STOCK_PLANTS})
    verdict = judged(sold_out_run(seed), properties=[*of_stock, "P13"])
    assert [each.verdict for each in verdict.properties] == [PASS] * 12, verdict


def test_busy_after_the_commit_is_seen_under_faults_too() -> None:
    """By the order's own time: under faults a first good answer may be a repeat of itself."""
    world = busy_run(3)
    assert judged(world, faults=FAULT, properties=["P20"]).verdict == PASS
    PLANTS["P20: busy after the commit"](world)
    assert judged(world, faults=FAULT, properties=["P20"]).verdict == FAIL


def test_overload_is_not_an_untrue_answer() -> None:
    world = busy_run(3)
    for op, code in (("page", ""), ("mail", ""), ("order", "busy"), ("cancel", "outcome_unknown")):
        world.later(op, 503, code)
    assert judged(world, properties=["P20"]).verdict == PASS
    world.later("mail", 500)
    assert judged(world, properties=["P20"]).verdict == FAIL


def test_mail_sent_twice_under_one_number_is_right_under_faults() -> None:
    world = busy_run(3)
    PLANTS["P19: mail sent again though nothing broke"](world)
    assert judged(world, faults=FAULT, properties=["P19"]).verdict == PASS
    PLANTS["P19: two confirmations"](world)
    assert judged(world, faults=FAULT, properties=["P19"]).verdict == FAIL


def without(kind: type) -> Callable[[World], None]:
    def forget(world: World) -> None:
        world.rows = [row for row in world.rows if not isinstance(row, kind)]

    return forget


def no_peeping(world: World) -> None:
    strangers = {end.call for _, end in world.calls("read", "payment", "cancel", "refund")}
    world.lines = [each for each in world.lines if each.call not in strangers]


def no_carts(world: World) -> None:
    for line in world.lines:
        line.values.pop("cart", None)


@pytest.mark.parametrize(
    ("identity", "forget"),
    [
        ("P11", orders_with(status="unheard of")),
        ("P14", without(s.Event)),
        ("P14", orders_with(status="unheard of")),
        ("P14", orders_with(pay_before=0)),
        ("P15", lambda world: world.terms.clear()),
        ("P16", without(s.Event)),
        ("P16", orders_with(pay_before=0)),
        ("P17", no_carts),
        ("P18", no_peeping),
        ("P19", without(s.Event)),
        ("P19", without(s.Buyer)),
    ],
)
def test_property_without_its_evidence_is_unknown(
    identity: str, forget: Callable[[World], None]
) -> None:
    world = busy_run(3)
    forget(world)
    assert judged(world, properties=[identity]).verdict == UNKNOWN


def test_order_of_somebody_who_may_buy_earlier_is_in_the_window() -> None:
    world = busy_run(3)
    planted_orders.opened_early(world, planted_orders.sold_in(world).buyer)
    assert judged(world, properties=["P15"]).verdict == PASS


def test_mail_properties_are_unknown_without_received_mails() -> None:
    assert judged(busy_run(3), without="deliveries", properties=["P19"]).verdict == UNKNOWN


@pytest.mark.parametrize(
    ("plant", "bound", "verdict"),
    [
        ("P14: refund that never comes", "refund_us", UNKNOWN),
        ("P16: order that never expires", "expiry_us", PASS),
    ],
)
def test_follow_up_is_wrong_only_when_it_is_too_late(
    plant: str, bound: str, verdict: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = busy_run(3)
    PLANTS[plant](world)
    properties = [plant.partition(":")[0]]
    assert judged(world, properties=properties).verdict == FAIL
    monkeypatch.setitem(ALLOWED, bound, 10**12)
    assert judged(world, properties=properties).verdict == verdict


@pytest.mark.parametrize(("seconds", "verdict"), [(1, PASS), (2, FAIL)])
def test_sale_may_be_shown_with_the_price_of_a_second_ago(seconds: int, verdict: str) -> None:
    world = busy_run(3)
    (first,) = [each for each in world.terms if each.sale == SALE]
    changed = world.end + 10
    after = {"asked": clock(changed), "done": clock(changed), "price": first.price + 1}
    world.terms.append(replace(first, **after))
    planted_answers.look(world, changed + seconds, "open", 3, amount=first.price)
    assert judged(world, properties=["P14"])["P14"].verdict == verdict


def test_part_that_came_back_may_be_followed_by_the_rest() -> None:
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


def first_located(verdict: Verdict, identity: str) -> Problem:
    """Return the first problem of a property whose moment is known."""
    found = [each for each in verdict[identity].problems if each.at is not None]
    return min(found, key=lambda problem: problem.at or 0)


@pytest.mark.parametrize(
    ("plant", "op", "key", "status"),
    [
        ("P3: order lost", "order", "k1", 201),
        ("P4: order of a refused key", "order", "planted-120", 409),
        ("P5: two answers for a key", "order", "k1", 200),
        ("P5: repeated key refused", "order", "k1", 409),
        ("P7: refused while there was stock", "order", "planted-120", 409),
        ("P8: promised order not readable", "read", "", 404),
        ("P11: charged twice", "payment", "", 200),
    ],
)
def test_problem_names_the_call_that_its_evidence_is_about(
    plant: str, op: str, key: str, status: int, tmp_path: Path
) -> None:
    world = sold_out_run(7)
    planted_orders.STOCK_PLANTS[plant](world)
    identity = plant.partition(":")[0]
    files = world.write(tmp_path / "run")
    verdict = judge(files, properties=[identity])
    problem = first_located(verdict, identity)
    call = next(each for each in operations(*files.histories()) if each.call == problem.call)
    assert (call.op, call.key, call.status, call.end) == (op, key, status, problem.at)
    assert verdict.histories[identity].rows


def test_oversell_names_the_answer_that_promised_too_much(tmp_path: Path) -> None:
    world = sold_out_run(7)
    late = world.call(world.end + 1, world.end + 2, "order", 201, order="o99")
    world.change(world.item, held=world.item.held + 1)
    files = world.write(tmp_path / "run")
    problem = first_located(judge(files, properties=["P1"]), "P1")
    call = next(each for each in operations(*files.histories()) if each.call == problem.call)
    assert call.key == late


def test_wrong_books_name_the_first_snapshot_that_shows_them(tmp_path: Path) -> None:
    world = sold_out_run(7)
    planted_orders.STOCK_PLANTS["P1: below zero during the run"](world)
    files = world.write(tmp_path / "run")
    problem = first_located(judge(files, properties=["P1"]), "P1")
    number = int(problem.text.partition("snapshot ")[2].partition(")")[0])
    assert (problem.at, problem.call) == (s.read(files.during()[number - 1])[0].taken_at, "")
