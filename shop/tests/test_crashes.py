"""Crashes: the process is killed at each failpoint, each COMMIT and each call of the provider.

Then it is started again. What it did is done or not done, and nothing in between: after the repair
the shop is in one of two states of the model, and the same request, sent again, gets the truth.
"""

from __future__ import annotations

import os
import pickle
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from itertools import count
from typing import Any, NamedTuple
from uuid import UUID

import pytest
from django.core import mail
from django.db import connection

from inventory.hooks import hooks
from inventory.models import OutboxMessage
from inventory.postgresql import base
from inventory.selling import commit
from shop import payments
from shop.background import tasks
from shop.catalogue.sales import database_time
from shop.orders import transitions
from shop.orders.models import Order as OrderRow
from shop.payments.models import Payment, Refund
from shop.redis import client
from shop.staff import orders as staff
from shop.staff import stopping
from shop.staff.models import SaleStop
from shop.tests import still_clock
from shop.tests.machine import ACT, ShopMachine, key_of
from shop.tests.model import Order, Part

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.timeout(0),
    pytest.mark.usefixtures("still_shop"),
]

KEPT = ("captures", "refunds", "back", "given", "intents", "on_the_way", "_answers")
"""What the provider, another machine, still knows after a crash of ours."""


def opened(shop: ShopMachine) -> None:
    shop.open(stock=9, limit=9)


def bought(shop: ShopMachine) -> None:
    opened(shop)
    shop.buy_cart("Ann", 3, 2)


def paid(shop: ShopMachine) -> None:
    bought(shop)
    shop.change_order("payment")


def asks_buyer(shop: ShopMachine) -> None:
    bought(shop)
    shop.change_provider("asks")


def payment_authorised(shop: ShopMachine) -> None:
    buyer_asked(shop)
    shop.buyer_answers(heard=False)


def buyer_asked(shop: ShopMachine) -> None:
    asks_buyer(shop)
    shop.change_order("payment")


def buyer_declined(shop: ShopMachine) -> None:
    buyer_asked(shop)
    shop.buyer_answers(answer="declines")


def buyer_gone(shop: ShopMachine) -> None:
    buyer_asked(shop)
    shop.pass_time(1_000)
    shop.expire_orders()


def authorised_too_late(shop: ShopMachine) -> None:
    buyer_gone(shop)
    shop.buyer_answers(heard=False)


def payment_at_work(shop: ShopMachine) -> None:
    bought(shop)
    shop.change_provider("works")
    shop.change_order("payment")
    shop.provider_ends()


def payment_unanswered(shop: ShopMachine) -> None:
    bought(shop)
    shop.change_provider("silent")
    shop.change_order("payment")
    shop.change_provider("answers")


def refund_refused(shop: ShopMachine) -> None:
    paid(shop)
    shop.change_provider("declines")
    shop.change_order("refund")
    shop.change_provider("answers")


def overdue(shop: ShopMachine) -> None:
    bought(shop)
    shop.pass_time(901)


def expired(shop: ShopMachine) -> None:
    overdue(shop)
    shop.expire_orders()


def handed_over(shop: ShopMachine) -> None:
    paid(shop)
    shop.hand_over()


def followed_up(shop: ShopMachine) -> None:
    paid(shop)
    shop.follow_up()


def buy(*sales: int) -> Callable[[ShopMachine], object]:
    """Return a function that buys two units of each of these sales by the API."""

    def do(shop: ShopMachine) -> object:
        lines = [{"sale": shop.rows[shop.sales[n]].pk, "quantity": 2} for n in sales]
        path, body = "orders", {"lines": lines}
        if len(sales) == 1:
            path, body = f"sales/{lines[0]['sale']}/orders", {"quantity": 2}  # type: ignore[dict-item]
        return shop.buyers["Ann"].call("POST", path, body, idempotency_key=key_of(7))

    return do


def record_purchase(*sales: int) -> Callable[[ShopMachine, Any], object]:
    """Return a function that buys the same in the model."""

    def done(shop: ShopMachine, _: Any) -> None:
        wanted = {shop.sales[n]: 2 for n in sales}
        order, _repeated = shop.model.buy("Ann", key_of(7), wanted, cart=len(sales) > 1)
        shop.learn_number(order, OrderRow.objects.latest("pk").pk)

    return done


def change(what: str, part: bool = False) -> Callable[[ShopMachine], object]:
    """Return a function that pays, cancels or returns the order, or a part of it, by the API."""

    def do(shop: ShopMachine) -> object:
        [order] = shop.model.orders
        path = f"orders/{shop.orders[order]}/{what}"
        ann = shop.buyers["Ann"]
        if not part:
            return ann.post(path)
        body = {"quantity": 1, "sale": shop.rows[order.lines[0].sale].pk}
        return ann.call("POST", path, body, idempotency_key=key_of(8))

    return do


def part_of(order: Order) -> Part:
    return Part(1, key_of(8), order.lines[0].sale)


def hand_over(shop: ShopMachine) -> None:
    transitions.fulfil([shop.orders[shop.model.orders[0]]])


def row_of(shop: ShopMachine) -> OrderRow:
    """Return the row of the only order."""
    [order] = shop.model.orders
    return OrderRow.objects.for_change().get(pk=shop.orders[order])


def concede(shop: ShopMachine) -> None:
    staff.concede(row_of(shop), ACT, 500, UUID(int=9))


def take_back(shop: ShopMachine) -> None:
    staff.refund(row_of(shop), ACT)


def hold_again(shop: ShopMachine) -> None:
    staff.hold(row_of(shop), ACT, timedelta(seconds=600), UUID(int=9))


def cancel_and_sweep(shop: ShopMachine) -> None:
    change("cancel")(shop)
    sweep_payments(shop)


def record_cancellation_and_sweep(shop: ShopMachine, order: Order) -> None:
    order.cancel()
    shop.model.settle()


def sweep_payments(_: ShopMachine) -> None:
    for kind in (Payment, Refund):
        kind.objects.update(not_before=database_time())
    tasks.settle_payments()


def retry_refund(_: ShopMachine) -> None:
    payments.retry(Refund.objects.all())
    tasks.settle_payments()


def record_retry(shop: ShopMachine, order: Order) -> None:
    shop.model.retry(order.refunds[0])
    shop.model.settle()


def receive_event(shop: ShopMachine) -> None:
    shop.post_event(shop.events[0], shop.events[0].pk)


class Act(NamedTuple):
    """What came before, what is done by the shop, and the same in the model."""

    before: Callable[[ShopMachine], None]
    do: Callable[[ShopMachine], object]
    record: Callable[[ShopMachine, Any], object]


ACTS = {
    "purchase": Act(opened, buy(0), record_purchase(0)),
    "cart": Act(opened, buy(0, 1), record_purchase(0, 1)),
    "payment": Act(bought, change("payment"), lambda shop, order: shop.model.pay(order)),
    "cancellation": Act(bought, change("cancel"), lambda _, order: order.cancel()),
    "cancellation of a part": Act(
        bought, change("cancel", part=True), lambda _, order: order.cancel(part_of(order))
    ),
    "return": Act(paid, change("refund"), lambda shop, order: shop.model.refund(order)),
    "return of a part": Act(
        paid,
        change("refund", part=True),
        lambda shop, order: shop.model.refund(order, part_of(order)),
    ),
    "handing over": Act(paid, hand_over, lambda _, order: order.hand_over()),
    "event of a payment": Act(
        payment_at_work,
        receive_event,
        lambda shop, order: shop.model.record(order, order.payments[0], "done"),
    ),
    "payment that asks the buyer": Act(
        asks_buyer, change("payment"), lambda shop, order: shop.model.pay(order)
    ),
    "event of an authorisation": Act(
        payment_authorised,
        receive_event,
        lambda shop, order: shop.model.hear_of_authorisation(
            order, order.payments[0], is_known=False
        ),
    ),
    "event of an authorisation after the expiry": Act(
        authorised_too_late,
        receive_event,
        lambda shop, order: shop.model.hear_of_authorisation(
            order, order.payments[0], is_known=False
        ),
    ),
    "payment after the buyer has declined": Act(
        buyer_declined, change("payment"), lambda shop, order: shop.model.pay(order)
    ),
    "cancellation while the buyer is asked": Act(
        buyer_asked, cancel_and_sweep, record_cancellation_and_sweep
    ),
    "sweep after a buyer who walked away": Act(
        buyer_gone, sweep_payments, lambda shop, _: shop.model.settle()
    ),
    "sweep that finds an authorisation": Act(
        payment_authorised, sweep_payments, lambda shop, _: shop.model.settle()
    ),
    "goodwill": Act(paid, concede, lambda shop, order: shop.model.concede(order, 500, 9)),
    "taking back what was handed over": Act(
        handed_over, take_back, lambda shop, order: shop.model.refund(order, by_staff=True)
    ),
    "holding an expired order again": Act(
        expired, hold_again, lambda shop, order: shop.model.hold(order, 600, 9)
    ),
    "sweep of payments": Act(
        payment_unanswered, sweep_payments, lambda shop, _: shop.model.settle()
    ),
    "retry of a refund": Act(refund_refused, retry_refund, record_retry),
    "expiry": Act(
        overdue,
        lambda _: tasks.expire_orders(),
        lambda shop, order: order.expire(shop.model.now),
    ),
    "follow-up": Act(paid, lambda _: tasks.follow_up(), lambda *_: None),
    "mails": Act(followed_up, lambda _: tasks.send_mails(), lambda *_: None),
}


@contextmanager
def calling_at_each_point(shop: ShopMachine, reach: Callable[[], None]) -> Iterator[None]:
    """Call a function at each point at which the process may end."""
    hooks.failpoint = lambda _: reach()
    shop.provider.before = shop.provider.after = lambda call: reach()
    bounded = base.commit_bounded

    @contextmanager
    def commit_bounded(wrapper: Any) -> Iterator[None]:
        reach()
        with bounded(wrapper):
            yield
        reach()

    for module in (base, commit):
        module.commit_bounded = commit_bounded  # type: ignore[attr-defined]
    yield


def is_killed(shop: ShopMachine, do: Callable[[ShopMachine], object], last: int) -> bool:
    """Do it in a process that is killed at its n-th point; tell whether it came to that point.

    What the provider knows then, and the mails that were sent, are taken over from the process.
    """
    still_clock.disconnect()
    points = count(1)
    reads, writes = os.pipe()
    child = os.fork()
    if not child:

        def reach() -> None:
            if next(points) == last:
                sent = [message.extra_headers["Message-ID"] for message in mail.outbox]
                left = ([getattr(shop.provider, name) for name in KEPT], sent)
                with os.fdopen(writes, "wb") as pipe:
                    pickle.dump(left, pipe)
                os.kill(os.getpid(), signal.SIGKILL)

        # A pool starts threads, and a forked process may lack what those of its parent held.
        connection.settings_dict["OPTIONS"]["pool"] = False
        status = 1
        try:
            with calling_at_each_point(shop, reach):
                do(shop)
            status = 0
        finally:  # or it would go on with the tests of its parent
            if status:
                traceback.print_exc(file=sys.__stderr__)
            os._exit(status)
    os.close(writes)
    with os.fdopen(reads, "rb") as answer:
        left = answer.read()
    _, status = os.waitpid(child, 0)
    if not left:
        assert status == 0, "the act failed"
        return False
    values, shop.sent = pickle.loads(left)
    for name, value in zip(KEPT, values, strict=True):
        setattr(shop.provider, name, value)
    shop.provider._numbers = count(1_000)
    return True


def start_again(shop: ShopMachine) -> None:
    """Start the shop again: with nothing in its memory, nor in Redis'."""
    client().flushdb()
    shop.change_provider("asks" if shop.model.mode == "asks" else "answers")
    shop.forget()
    while True:  # the server needs a moment to see that a client is gone
        with connection.cursor() as cursor:
            cursor.execute(
                "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() "
                "AND pid <> pg_backend_pid() AND xact_start IS NOT NULL"
            )
            if cursor.fetchone() == (0,):
                return
        time.sleep(0.01)


EVERYDAY = {"purchase", "payment", "event of a payment", "expiry"}
"""One of each kind: a purchase, a call of the provider, an event of it, and a background task."""


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[] if name in EVERYDAY else [pytest.mark.long]) for name in ACTS],
)
def test_crash_leaves_an_act_done_or_not_done(name):
    act = ACTS[name]
    outcomes = []
    for last in count(1):
        shop = ShopMachine()
        act.before(shop)
        shop.forget()
        mail.outbox = []
        if not is_killed(shop, act.do, last):
            break
        outcomes.append(is_done(shop, act))
    assert outcomes, "no point was reached"
    # Once it is done it stays done, however late the process ends.
    assert outcomes == sorted(outcomes)


def three_orders_of_a_sale(shop: ShopMachine) -> None:
    """Open an order that is paid, one that was handed over, and an unpaid cart."""
    opened(shop)
    shop.buy("Bob", 0, 1)
    shop.change_order("payment")
    shop.hand_over()
    shop.buy("Ann", 0, 2)
    shop.change_order("payment")
    shop.buy_cart("Ann", 1, 2)


def stop_sale(shop: ShopMachine) -> None:
    """Press the button, and let a worker and the sweep do what is due."""
    stopping.stop_sale(shop.rows[shop.sales[0]].pk, ACT, handed_over=True)
    stopping.work()
    sweep_payments(shop)


def record_stop(shop: ShopMachine) -> None:
    handed_over, paid, cart = shop.model.orders
    shop.model.refund(handed_over, by_staff=True)
    shop.model.refund(paid, by_staff=True)
    cart.cancel(Part(1, key_of(9), shop.sales[0]))


@pytest.mark.long
def test_crash_while_stopping_a_sale_refunds_each_order_once():
    """Whatever the killed worker has left is done by the next one, and nothing of it again."""
    for last in count(1):
        shop = ShopMachine()
        three_orders_of_a_sale(shop)
        shop.forget()
        mail.outbox = []
        if not is_killed(shop, stop_sale, last):
            break
        start_again(shop)
        OutboxMessage.objects.filter(done=None).update(not_before=database_time())
        stop_sale(shop)
        record_stop(shop)
        shop.check_rows()
        assert SaleStop.objects.get().found == 3
    assert last > 20


def is_done(shop: ShopMachine, act: Act) -> bool:
    """Repair the shop; tell whether it had done the act. Do it again, and compare once more."""
    start_again(shop)
    shop.audit("--repair")
    order = shop.model.orders[0] if shop.model.orders else None
    done = not agrees(shop)
    if not done:
        act.do(shop)
    act.record(shop, order)
    shop.check_rows()
    act.do(shop)
    shop.check_rows()
    shop.audit("--repair")
    audit = shop.audit()
    assert (audit["problems"], audit["overdue"]) == ([], [])
    shop.model.follow_up()
    due = {f"<{kind}.{shop.orders[order]}" for order in shop.model.orders for kind in order.mails}
    sent = [*shop.sent, *(message.extra_headers["Message-ID"] for message in mail.outbox)]
    assert {text.partition("@")[0] for text in sent} == due
    return done


def agrees(shop: ShopMachine) -> bool:
    """Return whether the rows are those of the model."""
    try:
        shop.check_rows()
    except AssertionError:
        return False
    return True
