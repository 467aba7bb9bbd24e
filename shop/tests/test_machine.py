"""The shop against its model, in any order of steps that Hypothesis chooses."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from hypothesis import HealthCheck, Phase, seed
from hypothesis import settings as profile
from hypothesis.internal.conjecture import engine
from hypothesis.stateful import run_state_machine_as_test

from shop.tests.machine import ShopMachine
from shop.tests.model import Refused

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("still_shop")]

RUNS = int(os.environ.get("MACHINE_RUNS", "90"))
"""Runs of the machine, each of up to `STEPS` steps."""

STEPS = 30

PARTS = 9
"""Parts of the runs, which workers of pytest-xdist do at the same time. The first is for every
day; the others are long."""

SHRINKING = 45
"""Seconds in which Hypothesis makes a failing run shorter. It then reports the shortest so far."""


def run_machine(runs: int, part: int | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run the machine; a failure is printed as a program of few steps.

    Args:
        runs: how many.
        part: chooses the runs, the same each time; None: others each time.
        monkeypatch: of the test.
    """
    # Hypothesis has no setting for it; the attribute must exist.
    monkeypatch.setattr(engine, "MAX_SHRINKING_SECONDS", SHRINKING)
    machine = type("Seeded", (ShopMachine,), {})
    run_state_machine_as_test(
        machine if part is None else seed(part)(machine),
        settings=profile(
            max_examples=runs,
            stateful_step_count=STEPS,
            deadline=None,
            database=None,
            report_multiple_bugs=False,
            phases=[Phase.generate, Phase.shrink],
            suppress_health_check=list(HealthCheck),
        ),
    )


@pytest.mark.timeout(0)
@pytest.mark.parametrize(
    "part", [0, *(pytest.param(part, marks=pytest.mark.long) for part in range(1, PARTS))]
)
def test_machine_shop_does_what_the_model_does(part, monkeypatch):
    run_machine(max(1, RUNS // PARTS), part, monkeypatch)


@pytest.mark.timeout(0)
@pytest.mark.nightly
def test_machine_shop_does_what_the_model_does_in_more_runs(monkeypatch):
    run_machine(5 * RUNS, None, monkeypatch)


# --- examples that were found by chance ------------------------------------------------------


@contextmanager
def playing(**terms: object) -> Iterator[ShopMachine]:
    """Yield a machine whose shop is open; in the end everything is settled and compared."""
    machine = ShopMachine()
    machine.open(**terms)
    yield machine
    machine.check_rows()
    machine.teardown()


def test_late_payment_ignores_units_beyond_a_lowered_limit():
    with playing() as shop:
        shop.buy("Ann", 2, 2)
        shop.change_sale(2, "limit", 1)
        shop.pay_slowly(part=False, meanwhile="expired")
        assert shop.order(0).status == "expired"


def test_late_payment_gives_back_a_part_cancelled_meanwhile():
    with playing() as shop:
        shop.buy("Ann", 0, 2)
        shop.pay_slowly(part=True, meanwhile="nothing")
        assert [refund.reason for refund in shop.order(0).refunds] == ["too_much"]


def test_late_payment_of_a_cart_is_refused_if_one_line_is_gone():
    with playing(hold=30, stock=4) as shop:
        shop.change_provider("works")
        shop.buy_cart("Ann", 2, 1)
        shop.change_order("payment")
        shop.pass_time(61)
        shop.expire_orders()
        shop.buy("Bob", 0, 3)
        shop.provider_ends()
        shop.event_arrives()
        assert shop.model.orders[0].status == "expired"


def test_payment_called_failed_counts_beside_the_next_one():
    with playing() as shop:
        shop.buy("Ann", 0, 2)
        shop.change_provider("mute")
        shop.change_order("payment")
        shop.provider_contradicts_itself()
        shop.change_provider("answers")
        shop.change_order("payment")
        assert not shop.audit()["balanced"]
        shop.repair()
        assert shop.audit()["balanced"]
        shop.change_part("refund", key=0)
        shop.change_order("refund")


def test_refund_of_a_part_is_refused_once_handed_over():
    with playing() as shop:
        shop.buy("Ann", 0, 3)
        shop.change_order("payment")
        shop.hand_over()
        shop.change_part("refund", key=0)
        shop.change_order("refund")
        assert shop.order(0).status == "fulfilled"


def test_refunds_of_parts_follow_each_other_through_refusals():
    with playing(stock=6, limit=4) as shop:
        shop.buy("Ann", 0, 4)
        shop.change_order("payment")
        shop.change_part("refund", key=1)
        shop.change_provider("works")
        shop.change_part("refund", key=2)
        shop.settle_payments()
        shop.provider_ends(end="failed")
        shop.event_arrives()
        shop.change_provider("answers")
        shop.retry_refund()
        shop.event_arrives(other_number=True)  # that of the first try
        shop.change_provider("declines")
        shop.change_part("refund", key=0)
        shop.change_order("refund")
        shop.change_provider("silent")
        shop.retry_refund(11)
        shop.change_provider("answers")
        shop.settle_payments()


def test_sold_out_cart_says_that_units_may_come_back():
    with playing(stock=2, limit=2) as shop:
        shop.buy("Ann", 0, 2)
        sold_out = Refused("sold_out", shop.sales[0], available=0, may_come_back=True)
        with pytest.raises(Refused) as refused:
            shop.model.buy("Bob", 0, {shop.sales[0]: 1}, cart=True)
        assert refused.value.figures == sold_out.figures
        shop.buy_cart("Bob", 1, 1)


def test_deadline_is_passed_in_the_second_it_names():
    with playing(hold=30) as shop:
        shop.buy("Ann", 0)
        shop.buy("Bob", 0)
        shop.pass_time(29)
        shop.change_order("payment", order=1)
        shop.pass_time(1)
        shop.change_order("payment")
        assert [order.status for order in shop.model.orders] == ["paid", "awaiting_payment"]
        shop.expire_orders()


def test_shop_without_payments_confirms_orders():
    with playing(takes_payments=False) as shop:
        shop.buy("Ann", 0, 2)
        shop.buy_cart("Bob", 1, 1)
        shop.change_part("cancel", key=0)
        shop.follow_up()
        assert {order.status for order in shop.model.orders} == {"paid"}
        shop.send_mails()
        shop.change_part("refund", key=1)
        shop.change_order("refund")
        shop.buy("Ann", 0)
        shop.pass_time(91)
        shop.change_order("payment")  # it can no longer be confirmed
        shop.expire_orders()
