"""What must agree: rows after every act; mails, metrics, audit, alerts and health at rest."""

from __future__ import annotations

from collections import Counter
from typing import Any

from django.conf import settings
from django.core import mail
from django.db.models import Sum
from django.utils.translation import override

from inventory.models import BuyerQuota, Item, StockMovement
from shop.background import tasks
from shop.operating import health
from shop.operating.metrics.exporter import State
from shop.orders.models import Order as Row
from shop.specification.order import Order
from shop.templatetags.shop_pages import shop_name
from shop.tests.specification import words
from shop.tests.specification.operator import CAPTURED, Operator
from shop.tests.specification.page import read
from shop.tests.specification.world import World


def check_rows(world: World) -> None:
    """Compare stock, limits, orders, their histories, their money and the provider's."""
    stock = {i.pk: (i.available, i.total) for i in Item.objects.all()}
    model = world.model
    assert stock == {
        row.item_id: (model.available(sale), sale.total) for sale, row in world.rows.items()
    }
    _check_ledger(world)
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


def _check_ledger(world: World) -> None:
    """Compare why the stock has changed, all in all."""
    grouped = StockMovement.objects.values_list("item", "reason").annotate(Sum("delta"))
    found = {(item, reason): units for item, reason, units in grouped}
    for sale, row in world.rows.items():
        lines = [(o, line) for o in world.model.orders for line in o.lines if line.sale is sale]
        reclaimed = 0
        for order, line in lines:
            if any(event.kind == "paid_late" for event in order.timeline):
                gone = [e for e in order.timeline if e.kind == "part_cancelled" and e.sale is sale]
                reclaimed += line.quantity - sum(event.quantity or 0 for event in gone)
        stocked = world.stocked[sale]
        wanted = {"restock": stocked, "write_off": sale.total - stocked, "reclaim": -reclaimed}
        wanted["sale"] = -sum(line.quantity for _, line in lines)
        assert {name: found.get((row.item_id, name), 0) for name in wanted} == wanted


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


def check_watching(world: World, operator: Operator, *, dead: int = 0) -> None:
    """Compare what operators watch: metrics, the audit, its alerts, and health."""
    model = world.model
    world.provider.be(model.mood)
    if words.disputed(model):
        # The audit has problems then, whose sentences its own tests compare.
        assert operator.audit()["balanced"] == (model.mood == "silent")
        return
    late = list(words.overdue(model.now, waiting(world, dead)))
    late += [f"{dead} mails are dead"] * bool(dead)
    operator.check_audit(late)
    world.forget()
    # One alert for each kind, however many; what could not be compared closes none.
    kept = world.alerts if model.mood == "silent" else {}
    found = {text.partition(" ")[2]: text for text in late}
    opened = {kind: world.alerts.get(kind, (model.now,))[0] for kind in found}
    world.alerts = kept | {kind: (opened[kind], text) for kind, text in found.items()}
    said = sorted(text for _, text in world.alerts.values())
    assert tasks.audit() == len(said)
    operator.check_alerts(said)
    world.forget()
    operator.check_waiting(dead)
    _check_metrics(world, dead)
    lag = max((model.now - since for since in world.outbox), default=0)
    health._last.clear()
    ready = operator.browser.get("/readyz")
    assert ready.status_code == 200, "a replica that sells is taken out of service"
    answer = ready.json()
    assert answer["status"] == ("degraded" if lag > 60 else "ready"), (answer, lag)
    assert set(answer["servers"].values()) == {"ok"}
    assert int(answer["outbox_lag_seconds"]) == lag


def _check_metrics(world: World, dead: int) -> None:
    model, now = world.model, world.model.now
    since = waiting(world, dead)
    del since["refused"]  # which wait for an operator
    since["alert"] = [opened for opened, _ in world.alerts.values()]
    found = {
        family.name: {sample.labels.get("kind"): sample.value for sample in family.samples}
        for family in State().collect()
        if family.name.startswith("shop_owed")
    }
    waits = {kind: len(each) for kind, each in since.items()}
    assert found["shop_owed"] == waits
    assert found["shop_owed_dead"] == {kind: dead * (kind == "mail") for kind in waits}
    for kind, each in since.items():
        assert int(found["shop_owed_seconds"][kind]) == max((now - s for s in each), default=0)
    assert world.counted("order_events") == Counter(
        event.kind for order in model.orders for event in order.timeline
    )
    sent = sum(sent for order in model.orders for sent in order.mails.values())
    assert world.counted("mails") == Counter(sent=sent, failed=world.failed)


def waiting(world: World, dead: int) -> dict[str, list[int]]:
    """Return since when all that waits has waited, messages as well."""
    mails = [] if dead else list(world.mails.values())
    return {**words.pending_since(world.model), "outbox": world.outbox, "mail": mails}


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
    """Compare a mail word for word: both languages, in both of its parts."""
    user, number = world.people[order.buyer].buyer.user, str(world.orders[order])
    assert written.to == [user.email or f"{user.username}@localhost"]
    deadline = f"{world.at(order.pay_before):%Y-%m-%d %H:%M} UTC"

    def each(text: str, **named: object) -> list[str]:
        return [words.said(text, chinese=chinese, **named) for chinese in (False, True)]

    contents = [
        ", ".join(f"{line.quantity} × {each(line.sale.name)[n]}" for line in order.lines)
        for n in (0, 1)
    ]
    headings, bodies = (
        [each(text, number=number, deadline=deadline, contents=contents[n])[n] for n in (0, 1)]
        for text in world.texts.mails[kind]
    )
    facts = [
        (f"{line.quantity} × {line.sale.name}", line.price * line.quantity) for line in order.lines
    ]
    if cancelled := sum(amount for _, amount in facts) - order.amount:
        facts += [(" · ".join(each("Cancelled")), cancelled)]
    facts += [(" · ".join(each("Total")), order.amount)]
    if order.refunded:
        facts += [(" · ".join(each("Refunded")), order.refunded)]
    told = [(" · ".join(each("Order")), number)]
    told += [(what, words.money(amount, order.currency)) for what, amount in facts]
    if kind == "confirmation":
        told += [(" · ".join(each("Pay before")), deadline)]
    button = " · ".join(each("Pay now" if kind == "confirmation" else "View your order"))
    link = f"{settings.PUBLIC_URL}/orders/{number}/"
    assert written.subject == " / ".join(headings)
    plain = [*headings, *bodies, "--", *(": ".join(fact) for fact in told), f"{button}: {link}"]
    assert " ".join(written.body.split()) == " ".join(plain)
    [(html, _)] = written.alternatives
    page = read(html)
    names_of_shop = []
    for language in ("en", "zh-hans"):
        with override(language):
            names_of_shop.append(shop_name())
    shop = ["⚡", " · ".join(names_of_shop)]
    drawn = [headings[0], *shop, *headings, *bodies, button, *(" ".join(fact) for fact in told)]
    assert page.text == " ".join([*drawn, *each(words.WHY)])
    assert [a.attributes["href"] for a in page.all("a")] == [link]
