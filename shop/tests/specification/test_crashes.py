"""Crashes: the process is killed at each failpoint, each COMMIT and each call of the provider.

Then it is started again. What it did is done or not done, and nothing in between: after the repair
the shop is one of the two models, and the same request, sent again, gets the truth.
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
from itertools import count
from typing import Any, NamedTuple

import pytest
from django.core import mail
from django.db import connection

from inventory.hooks import hooks
from inventory.postgresql import base
from inventory.redis import client
from inventory.selling import commit
from shop.background import tasks
from shop.catalogue.sales import database_time
from shop.orders.models import Order as Row
from shop.payments.models import Payment, Refund
from shop.specification.order import Order, Part
from shop.tests.specification import clock, rest
from shop.tests.specification.found import Steps, changed, opening, provider
from shop.tests.specification.story import Story
from shop.tests.specification.world import key_of

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.timeout(0),
    pytest.mark.usefixtures("stage"),
]

BUYS: Steps = [
    opening(stock=9, limit=9),
    ("buys_a_cart", {"who": "Ann", "units": (3, 2, 0), "again": False}),
]
PAYS: Steps = [*BUYS, changed("payment")]
WORKS: Steps = [*BUYS, provider("works"), *PAYS[2:]]
UNANSWERED: Steps = [*BUYS, provider("silent"), *PAYS[2:], provider("answers")]
REFUSED: Steps = [*PAYS, provider("declines"), changed("refund"), provider("answers")]
LATE: Steps = [*BUYS, ("time_passes", {"towards": 3, "edge": 0})]


class Act(NamedTuple):
    """What is begun, what came before, and what it does in the model."""

    before: Steps
    do: Callable[[Story], object]
    done: Callable[[Story, Order], object]


def _buys(*sales: int) -> Callable[[Story], object]:
    def do(story: Story) -> object:
        lines = [{"sale": story.world.rows[story.sales[n]].pk, "quantity": 2} for n in sales]
        path, body = "orders", {"lines": lines}
        if len(sales) == 1:
            path, body = f"sales/{lines[0]['sale']}/orders", {"quantity": 2}  # type: ignore[dict-item]
        ann = story.world.people["Ann"].buyer
        return ann.call("POST", path, body, idempotency_key=key_of(7))

    return do


def _bought(*sales: int) -> Callable[[Story, Order], object]:
    def done(story: Story, _: Order) -> None:
        wanted = {story.sales[n]: 2 for n in sales}
        order, _replayed = story.model.buy("Ann", key_of(7), wanted, cart=len(sales) > 1)
        story.world.learn(order, Row.objects.latest("pk").pk)

    return done


def _changes(what: str, part: bool = False) -> Callable[[Story], object]:
    def do(story: Story) -> object:
        [order] = story.model.orders
        path = f"orders/{story.world.orders[order]}/{what}"
        ann = story.world.people["Ann"].buyer
        if not part:
            return ann.post(path)
        body = {"quantity": 1, "sale": story.world.rows[order.lines[0].sale].pk}
        return ann.call("POST", path, body, idempotency_key=key_of(8))

    return do


def _part(order: Order) -> Part:
    return Part(1, key_of(8), order.lines[0].sale)


def _hands_over(story: Story) -> None:
    pk = story.world.orders[story.model.orders[0]]
    story.world.staff.post("/admin/shop/order/", {"action": "fulfil", "_selected_action": [pk]})


def _sweeps(_: Story) -> None:
    Payment.objects.update(not_before=database_time())
    tasks.settle_payments()


def _retries(story: Story) -> None:
    chosen = list(Refund.objects.values_list("pk", flat=True))
    form = {"action": "retry", "_selected_action": chosen}
    story.world.staff.post("/admin/shop/refund/", form)
    tasks.settle_payments()


def _retried(story: Story, order: Order) -> None:
    story.model.retry(order.refunds[0])
    story.model.settle()


def _restocked(story: Story, _: Order) -> None:
    story.world.restocked(story.sales[0], 5)


def _restocks(story: Story) -> None:
    where = f"/admin/inventory/item/{story.world.rows[story.sales[0]].item_id}/restock/"
    story.world.staff.post(where, {"units": 5, "total": 9})


def _hears(story: Story) -> None:
    [(order, payment)] = story.working() or [(story.news[0].order, story.news[0].about)]
    if not story.news:
        story.finish(order, payment, end="captured")
    story.deliver(story.news[0].pk, story.news[0], 0)


def _heard(story: Story, order: Order) -> None:
    order.payments[0].there = "done"
    story.model.hear(order, order.payments[0], "done")


ACTS = {
    "a purchase": Act([opening()], _buys(0), _bought(0)),
    "a cart": Act([opening()], _buys(0, 1), _bought(0, 1)),
    "a payment": Act(BUYS, _changes("payment"), lambda story, order: story.model.pay(order)),
    "a cancellation": Act(BUYS, _changes("cancel"), lambda _, order: order.cancel()),
    "a part's cancellation": Act(
        BUYS, _changes("cancel", part=True), lambda _, order: order.cancel(_part(order))
    ),
    "a return": Act(PAYS, _changes("refund"), lambda story, order: story.model.refund(order)),
    "a part's return": Act(
        PAYS,
        _changes("refund", part=True),
        lambda story, order: story.model.refund(order, _part(order)),
    ),
    "handing over": Act(PAYS, _hands_over, lambda _, order: order.hand_over()),
    "a restock": Act([opening(stock=9)], _restocks, _restocked),
    "news of a payment": Act(WORKS, _hears, _heard),
    "the sweep of payments": Act(UNANSWERED, _sweeps, lambda story, _: story.model.settle()),
    "an operator's retry": Act(REFUSED, _retries, _retried),
    "the expiry": Act(
        LATE, lambda _: tasks.expire_orders(), lambda story, order: order.expire(story.model.now)
    ),
    "the follow-up": Act(PAYS, lambda _: tasks.follow_up(), lambda *_: None),
    "mails": Act(
        [*PAYS, ("the_shop_follows_up", {"times": 1})],
        lambda _: tasks.send_mails(),
        lambda *_: None,
    ),
}


@contextmanager
def _reaching(story: Story, reach: Callable[[], None]) -> Iterator[None]:
    """Call a function at each point at which the process may end."""
    hooks.failpoint = lambda _: reach()
    provider = story.world.provider
    provider.before = provider.after = lambda call: reach()
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


def _killed(story: Story, do: Callable[[Story], object], last: int) -> bool:
    """Do it in a process that is killed at its n-th point; tell whether it came to that point."""
    clock.disconnect()
    kept = ("captures", "refunds", "intents", "on_the_way", "_answers")
    provider, points, (reads, writes) = story.world.provider, count(1), os.pipe()
    if not (child := os.fork()):

        def reach() -> None:
            if next(points) == last:
                sent = [each.extra_headers["Message-ID"] for each in mail.outbox]
                left = ([getattr(provider, name) for name in kept], story.news, sent)
                with os.fdopen(writes, "wb") as pipe:
                    pickle.dump(left, pipe)
                os.kill(os.getpid(), signal.SIGKILL)

        # A pool starts threads, and a forked process may lack what those of its parent held.
        connection.settings_dict["OPTIONS"]["pool"] = False
        status = 1
        try:
            with _reaching(story, reach):
                do(story)
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
    # The provider is another machine, and mails that were sent are gone.
    values, story.news, sent = pickle.loads(left)
    for name, value in zip(kept, values, strict=True):
        setattr(provider, name, value)
    provider._numbers = count(1_000)
    story.sent = sent
    return True


def _start_again(story: Story) -> None:
    """Start the shop again: with nothing in its memory, nor in Redis's."""
    client().flushdb()
    story.world.provider.be("answers")
    story.model.mood = "answers"
    while True:  # the server needs a moment to see that a client is gone
        with connection.cursor() as cursor:
            cursor.execute(
                "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() "
                "AND pid <> pg_backend_pid() AND xact_start IS NOT NULL"
            )
            if cursor.fetchone() == (0,):
                return
        time.sleep(0.01)


@pytest.mark.parametrize("name", ACTS)
def test_a_process_that_is_killed_has_done_all_of_it_or_nothing(name: str) -> None:
    act = ACTS[name]
    outcomes = []
    for last in count(1):
        story = Story()
        for step, arguments in act.before:
            getattr(story, step)(**arguments)
        story.world.forget()
        mail.outbox = []
        if not _killed(story, act.do, last):
            break
        outcomes.append(_is_done(story, act))
    assert outcomes, "no point was reached"
    # Once it is done it stays done, however late the process ends.
    assert outcomes == sorted(outcomes)


def _is_done(story: Story, act: Act) -> bool:
    """Repair the shop, which must have done it, or not; do it again, and compare once more."""
    _start_again(story)
    story.world.forget()
    story.operator.audit("--repair")
    order = story.model.orders[0] if story.model.orders else None
    done = not _agrees(story)
    if not done:
        act.do(story)
    act.done(story, order)  # type: ignore[arg-type]  # it is not there before a purchase
    rest.check_rows(story.world)
    act.do(story)
    rest.check_rows(story.world)
    story.operator.audit("--repair")
    audit = story.operator.audit()
    assert (audit["problems"], audit["overdue"]) == ([], [])
    story.world.end()
    story.world.deliver()
    due = {
        f"<{kind}.{story.world.orders[order]}@"
        for order in story.model.orders
        for kind in order.mails
    }
    sent = [*story.sent, *(each.extra_headers["Message-ID"] for each in mail.outbox)]
    assert {text.partition("@")[0] + "@" for text in sent} == due
    return done


def _agrees(story: Story) -> bool:
    try:
        rest.check_rows(story.world)
    except AssertionError:
        return False
    return True
