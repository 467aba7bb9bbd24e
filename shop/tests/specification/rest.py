"""What must agree: rows after every act; mails, metrics, audit, alerts and health at rest."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from typing import Any

from django.core import mail

from inventory.models import BuyerQuota, Item
from shop.audit.models import Alert
from shop.background import tasks
from shop.operating import health
from shop.operating.metrics.state import pending
from shop.orders.models import Order as Row
from shop.payments.http_provider import LedgerLine
from shop.specification.order import Order
from shop.specification.told import FOLLOW_UPS, LAG, held, mail_figures, overdue, waiting
from shop.tests.specification import shown
from shop.tests.specification.operator import Operator
from shop.tests.specification.page import read
from shop.tests.specification.world import Psp, World

SUBJECTS = {
    "confirmation": "Reserved for you: {contents}",
    "paid": "Order {number} is paid",
    "expired": "Order {number} has expired",
    "refunded": "Order {number} has been refunded",
    "money_owed": "We are refunding your payment for order {number}",
}


def check_rows(world: World) -> None:
    """Compare stock, limits, orders, their histories, their money and the provider's."""
    stock = {i.pk: (i.available, i.total) for i in Item.objects.all()}
    assert stock == {row.item_id: (sale.available, sale.total) for sale, row in world.rows.items()}
    used = {(q.scope, q.buyer): q.used for q in BuyerQuota.objects.filter(used__gt=0)}
    assert used == {
        (row.pk, world.people[name].api.user.pk): units
        for sale, row in world.rows.items()
        for name, units in sale.used.items()
        if units
    }
    found = {
        row.pk: row
        for row in Row.objects.with_lines().prefetch_related("events", "payments__refunds")
    }
    assert found.keys() == {world.orders[order] for order in world.model.orders}
    for order in world.model.orders:
        _check_row(world, order, found[world.orders[order]])


def _check_row(world: World, order: Order, row: Any) -> None:
    assert row.buyer_id == world.people[order.buyer].api.user.pk
    assert (row.status, row.amount, row.refunded) == (order.status, order.amount, order.refunded)
    assert (row.currency, world.second(row.pay_before)) == (order.currency, order.pay_before)
    assert [(line.quantity, line.amount, line.live) for line in row.lines.all()] == [
        (line.quantity, line.price * line.quantity, order.live(line)) for line in order.lines
    ]
    assert [(e.kind, e.quantity, e.amount) for e in row.events.all()] == [
        (event.kind, event.quantity, event.amount) for event in order.timeline
    ]
    payments = sorted(row.payments.all(), key=lambda each: int(each.pk))
    assert [(p.state, p.amount, p.owed_back) for p in payments] == [
        (p.state, p.amount, p.owed_back) for p in order.payments
    ]
    refunds = sorted((r for p in payments for r in p.refunds.all()), key=lambda each: int(each.pk))
    assert [(r.state, r.amount, r.reason) for r in refunds] == [
        (r.state, r.amount, r.reason) for r in order.refunds
    ]
    taken = [p.amount for p in order.payments if p.there == "captured"]
    assert world.provider.captures[row.pk] == taken
    given = sum(r.amount for r in order.refunds if r.there == "done")
    assert sum(world.provider.refunds[row.pk]) == given


def ledger(provider: Psp) -> Iterator[LedgerLine]:
    """Yield the provider's ledger as it would come over HTTP."""
    for intent in provider.intents.values():
        about = (intent.order, intent.id)
        if intent.status == "captured":
            yield LedgerLine(1, *about, "capture", intent.amount, intent.currency)
        if intent.refunded:
            yield LedgerLine(2, *about, "refund", intent.refunded, intent.currency)


def check_watching(world: World, operator: Operator, *, dead: int = 0) -> None:
    """Compare what operators watch: metrics, the audit, its alerts, and health."""
    operator.check_audit()
    model = world.model
    found = pending()
    counted = {each.kind: each.waiting for each in found}
    assert {each.kind: each.dead for each in found if each.dead} == ({"mail": dead} if dead else {})
    assert counted.pop("alert") >= 0
    assert counted == {
        "outbox": len(world.outbox),
        "mail": len(world.mails) - dead,
        "expiry": held(model, model.now),
        "payment": waiting(model, model.now, "payments"),
        "refund": waiting(model, model.now, "refunds"),
    }
    assert world.events_since() == Counter(e.kind for order in model.orders for e in order.timeline)
    late = [*overdue(model), *late_messages(world, dead)]
    assert operator.audit()["overdue"] == late
    assert tasks.audit() == len(late)
    said = sorted(Alert.objects.filter(closed=None).values_list("text", flat=True))
    assert said == sorted(late)
    lag = max((model.now - since for since in world.outbox), default=0)
    health._last.clear()
    answer = operator.browser.get("/readyz").json()
    assert answer["status"] == ("degraded" if lag >= LAG else "ready"), (answer, lag)
    assert int(answer["outbox_lag_seconds"]) == lag


def late_messages(world: World, dead: int) -> Iterator[str]:
    """Say what the audit reports of messages that wait."""
    late = world.model.now - FOLLOW_UPS
    if count := sum(since <= late for since in world.outbox):
        yield f"{count} messages of the outbox wait"
    if dead:
        yield f"{dead} mails are dead"
    elif count := sum(since <= late for since in world.mails.values()):
        yield f"{count} mails wait"


def check_mails(world: World) -> None:
    """Send what is owed; compare each mail, in both of its parts."""
    mail.outbox = []
    while tasks.send_mails():
        pass
    sent = {}
    for each in mail.outbox:
        kind, _, number = each.extra_headers["Message-ID"].strip("<>").partition(".")
        sent[kind, int(number.split("@")[0])] = each
    assert len(sent) == len(mail.outbox), "a mail was sent twice"
    due = {
        (kind, world.orders[order]): order
        for order in world.model.orders
        for kind, done in order.mails.items()
        if not done
    }
    assert sent.keys() == due.keys()
    world.mails.clear()
    for (kind, number), order in due.items():
        _check_mail(world, sent[kind, number], kind, order)
        order.mails[kind] = True


def _check_mail(world: World, written: Any, kind: str, order: Order) -> None:
    user, number = world.people[order.buyer].api.user, world.orders[order]
    assert written.to == [f"{user.username}@localhost"]
    contents = ", ".join(f"{line.quantity} × {line.sale.name}" for line in order.lines)
    assert written.subject.startswith(SUBJECTS[kind].format(number=number, contents=contents))
    [(html, _)] = written.alternatives
    deadline = f"{world.at(order.pay_before):%Y-%m-%d %H:%M} UTC"
    lines = [f"{line.quantity} × {line.sale.name}" for line in order.lines]
    for part in (written.body, read(html).text):
        assert shown.amounts(part, order.currency) == mail_figures(order)
        assert (deadline in part) == (kind == "confirmation")
        said = re.findall(r"\d+ × \w+", part.partition(str(number) + "\n")[2] or part)
        assert said[-len(lines) :] == lines
        assert str(number) in part
    link = f"/orders/{number}/"
    assert link in written.body
    assert [a.attributes["href"].endswith(link) for a in read(html).all("a")] == [True]
