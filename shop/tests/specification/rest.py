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
from shop.operating.metrics.state import families
from shop.orders.models import Order as Row
from shop.payments.http_provider import LedgerLine
from shop.specification.order import Order
from shop.tests.specification import shown, words
from shop.tests.specification.operator import CAPTURED, Operator
from shop.tests.specification.page import read
from shop.tests.specification.world import Psp, World


def check_rows(world: World) -> None:
    """Compare stock, limits, orders, their histories, their money and the provider's."""
    stock = {i.pk: (i.available, i.total) for i in Item.objects.all()}
    model = world.model
    assert stock == {
        row.item_id: (model.available(sale), sale.total) for sale, row in world.rows.items()
    }
    used = {(q.scope, q.buyer): q.used for q in BuyerQuota.objects.filter(used__gt=0)}
    assert used == {
        (row.pk, world.people[name].buyer.user.pk): units
        for sale, row in world.rows.items()
        for name in world.people
        if (units := model.held(sale, model.of(name)))
    }
    found = {
        row.pk: row
        for row in Row.objects.with_lines().prefetch_related("events", "payments__refunds")
    }
    assert found.keys() == {world.orders[order] for order in world.model.orders}
    for order in world.model.orders:
        _check_row(world, order, found[world.orders[order]])


def _check_row(world: World, order: Order, row: Any) -> None:
    assert row.buyer_id == world.people[order.buyer].buyer.user.pk
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
        (CAPTURED.get(p.state, p.state), p.amount, order.owed_back(p)) for p in order.payments
    ]
    refunds = sorted((r for p in payments for r in p.refunds.all()), key=lambda each: int(each.pk))
    assert [(r.state, r.amount, r.reason) for r in refunds] == [
        (r.state, r.amount, r.reason) for r in order.refunds
    ]
    taken = [p.amount for p in order.payments if p.there == "done"]
    assert sorted(world.provider.captures[row.pk]) == sorted(taken)
    given = sum(r.amount for r in order.refunds if r.there == "done")
    assert sum(world.provider.refunds[row.pk]) == given


def ledger(provider: Psp) -> Iterator[LedgerLine]:
    """Yield the provider's ledger as it would come over HTTP."""
    provider.before("ledger")
    for intent in provider.intents.values():
        about = (intent.order, intent.id)
        if intent.status == "captured":
            yield LedgerLine(1, *about, "capture", intent.amount, intent.currency)
        if intent.refunded:
            yield LedgerLine(2, *about, "refund", intent.refunded, intent.currency)


def check_watching(world: World, operator: Operator, *, dead: int = 0) -> None:
    """Compare what operators watch: metrics, the audit, its alerts, and health."""
    model = world.model
    world.provider.be(model.mood)
    late = list(words.overdue(model.now, waiting(world, dead)))
    late += [f"{dead} mails are dead"] * bool(dead)
    operator.check_audit(late)
    world.forget()
    before = set(Alert.objects.filter(closed=None).values_list("text", flat=True))
    count = tasks.audit()
    said = sorted(Alert.objects.filter(closed=None).values_list("text", flat=True))
    if model.mood == "silent":
        # What could not be compared closes no alert; one that is found again has new figures.
        assert set(late) <= set(said)
        assert count == len(said) >= len(before)
    else:
        assert (count, said) == (len(late), sorted(late))
        operator.check_alerts(sorted(late))
    world.forget()
    operator.check_waiting(dead)
    _check_metrics(world, dead, len(said))
    lag = max((model.now - since for since in world.outbox), default=0)
    health._last.clear()
    answer = operator.browser.get("/readyz").json()
    assert answer["status"] == ("degraded" if lag > 60 else "ready"), (answer, lag)
    assert set(answer["servers"].values()) == {"ok"}
    assert int(answer["outbox_lag_seconds"]) == lag


def _check_metrics(world: World, dead: int, alerts: int) -> None:
    model, now = world.model, world.model.now
    since = waiting(world, dead)
    del since["refused"]  # which wait for an operator
    found = {
        family.name: {sample.labels.get("kind"): sample.value for sample in family.samples}
        for family in families()
        if family.name.startswith("shop_owed")
    }
    waits = {kind: len(each) for kind, each in since.items()} | {"alert": alerts}
    assert found["shop_owed"] == waits
    assert found["shop_owed_dead"] == {kind: dead * (kind == "mail") for kind in waits}
    for kind, each in since.items():
        assert int(found["shop_owed_seconds"][kind]) == max((now - s for s in each), default=0)
    assert world.counted("order_events") == Counter(
        event.kind for order in model.orders for event in order.timeline
    )
    assert world.counted("mails")["sent"] == sum(
        sent for order in model.orders for sent in order.mails.values()
    )


def waiting(world: World, dead: int) -> dict[str, list[int]]:
    """Return since when all that waits has waited, messages as well."""
    mails = [] if dead else list(world.mails.values())
    return {**words.pending_since(world.model), "outbox": world.outbox, "mail": mails}


def figures(order: Order) -> list[str]:
    """Return the amounts of a mail in their order: of each line, the total, and what went back."""
    amounts = [*(line.price * line.quantity for line in order.lines), order.amount]
    amounts += [order.refunded] if order.refunded else []
    return [words.figure(amount, order.currency) for amount in amounts]


def check_mails(world: World) -> None:
    """Send what is owed; compare each mail, in both of its parts."""
    mail.outbox = []
    while tasks.send_mails():
        pass
    check_sent(world)


def check_sent(world: World) -> None:
    """Compare the mails that were sent with those that were owed."""
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
    user, number = world.people[order.buyer].buyer.user, world.orders[order]
    assert written.to == [user.email or f"{user.username}@localhost"]
    deadline = f"{world.at(order.pay_before):%Y-%m-%d %H:%M} UTC"
    texts = [
        [
            words.said(
                text,
                chinese=chinese,
                number=number,
                deadline=deadline,
                contents=", ".join(
                    f"{line.quantity} × {words.said(line.sale.name, chinese=chinese)}"
                    for line in order.lines
                ),
            )
            for text in words.MAILS[kind]
        ]
        for chinese in (False, True)
    ]
    assert written.subject == " / ".join(heading for heading, _ in texts)
    [(html, _)] = written.alternatives
    lines = [f"{line.quantity} × {line.sale.name}" for line in order.lines]
    for part in (" ".join(written.body.split()), read(html).text):
        for text in (text for pair in texts for text in pair):
            assert text in part
        assert shown.amounts(part, order.currency) == figures(order)
        assert (deadline in part) == (kind == "confirmation")
        said = re.findall(r"\d+ × \w+", part)
        assert said[-len(lines) :] == lines
        assert str(number) in part
    total = f"{words.SYMBOLS[order.currency]}{figures(order)[len(lines)]}"
    assert f"Total · 合计: {total}" in written.body
    assert ("Pay now · 立即付款" in written.body) == (kind == "confirmation")
    assert ("View your order · 查看订单" in written.body) == (kind != "confirmation")
    assert ("Refunded · 已退款" in written.body) == (order.refunded > 0)
    link = f"/orders/{number}/"
    assert link in written.body
    assert [a.attributes["href"].endswith(link) for a in read(html).all("a")] == [True]
