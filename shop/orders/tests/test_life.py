"""The life of orders, driven by Hypothesis against the real database: any course of events.

Whatever is done, in any order and as often, and whatever the provider answers: after every step
each timeline is a possible one, the books balance and the money fits. A few lives are tried with
the suite, `LIVES=1000 pytest shop/orders/tests/test_life.py` tries more.
"""

from __future__ import annotations

import os
from contextlib import suppress
from typing import cast
from uuid import uuid4

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)

from shop import orders, payments
from shop.catalogue.models import Sale
from shop.checkout.purchase import buy
from shop.orders import KeyReused, NoSuchPart, Part, WrongState
from shop.orders.models import Order
from shop.orders.states import STEPS
from shop.payments import Declined
from shop.payments.provider import PaymentUnknown, provider
from shop.refusals import Refusal
from shop.tests.catalogue import a_buyer, a_sale
from shop.tests.money import check, come_to_rest, deliver, make_due, sweep
from shop.tests.provider import Till, lost

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.timeout(0)]

LIVES = int(os.environ.get("LIVES", "12"))

REFUSED = (WrongState, Declined, PaymentUnknown, NoSuchPart, KeyReused)
POSSIBLE = {(step.before, step.after) for step in STEPS}


def reachable() -> set[tuple[str, str]]:
    """From where one gets to where, by any number of steps."""
    found = {(str(status), str(status)) for status in Order.Status}
    while True:
        more = {(a, str(after)) for a, b in found for before, after in POSSIBLE if b == before}
        if more <= found:
            return found
        found |= more


REACHABLE = reachable()


class Life(RuleBasedStateMachine):
    """A sale of four units, its orders, and whatever happens to them."""

    mine = Bundle("mine")
    parts = Bundle("parts")

    @initialize(resold=st.booleans())
    def open(self, resold: bool) -> None:
        self.till = cast(Till, provider())
        self.till.before = self.till.after = lambda call: None
        self.till.slow = self.till.declines = False
        self.sale = a_sale(stock=4, limit=3)
        rules = {"restock_cancelled": resold, "restock_returned": resold}
        Sale.objects.filter(pk=self.sale.pk).update(**rules)
        self.buyers = [a_buyer().pk for _ in range(3)]
        self.stood: dict[int, str] = {}

    @rule(target=mine, buyer=st.integers(0, 2), quantity=st.integers(1, 3))
    def buy(self, buyer: int, quantity: int) -> int:
        with suppress(Refusal):
            pk = buy(self.sale.pk, self.buyers[buyer], uuid4(), quantity).order.pk
            self.stood[pk] = "awaiting_payment"
            return pk
        return 0

    @rule(target=parts, quantity=st.integers(1, 2))
    def think_of_a_part(self, quantity: int) -> Part:
        return Part(quantity, uuid4())

    @rule(
        slow=st.booleans(),
        declines=st.booleans(),
        loses=st.sampled_from(["", "create", "capture", "refund", "cancel", "find"]),
        answer=st.booleans(),
    )
    def the_provider_changes(self, slow: bool, declines: bool, loses: str, answer: bool) -> None:
        self.till.slow, self.till.declines = slow, declines
        self.till.before = self.till.after = lambda call: None
        setattr(self.till, "after" if answer else "before", lost(loses))

    @rule(order=mine)
    def pay(self, order: int) -> None:
        self.do(payments.pay, order)

    @rule(order=mine)
    def cancel(self, order: int) -> None:
        self.do(orders.cancel, order)

    @rule(order=mine)
    def refund(self, order: int) -> None:
        self.do(payments.refund, order)

    @rule(order=mine)
    def fulfil(self, order: int) -> None:
        self.do(orders.fulfil, order)

    @rule(order=mine, part=parts)
    def cancel_a_part(self, order: int, part: Part) -> None:
        self.do(orders.cancel, order, part)

    @rule(order=mine, part=parts)
    def refund_a_part(self, order: int, part: Part) -> None:
        self.do(payments.refund, order, part)

    @rule(order=mine, at_once=st.booleans())
    def the_time_to_pay_passes(self, order: int, at_once: bool) -> None:
        make_due(*Order.objects.filter(pk=order))
        if at_once:
            orders.expire()

    @rule(times=st.integers(1, 3))
    def the_webhook_comes(self, times: int) -> None:
        deliver(self.till, times)

    @rule()
    def the_sweep_comes(self) -> None:
        sweep()

    def do(self, change, order: int, *more: Part) -> None:
        with suppress(*REFUSED):
            if order:
                change(Order.objects.get(pk=order), *more)

    @invariant()
    def all_of_it_fits(self) -> None:
        if not hasattr(self, "sale"):
            return
        for pk, stood in self.stood.items():
            stands = Order.objects.get(pk=pk).status
            assert (stood, stands) in REACHABLE
            self.stood[pk] = stands
        check(self.sale, self.till, at_rest=False)

    def teardown(self) -> None:
        if hasattr(self, "sale"):
            self.till.declines = False
            come_to_rest(self.till)
            check(self.sale, self.till)


def test_whatever_happens_to_orders_in_whatever_order_the_money_and_the_units_fit():
    run_state_machine_as_test(
        Life,
        settings=settings(
            max_examples=LIVES,
            stateful_step_count=25,
            deadline=None,
            suppress_health_check=list(HealthCheck),
            database=None,
        ),
    )
