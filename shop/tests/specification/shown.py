"""What people see: every figure and every form of a page is the model's."""

from __future__ import annotations

import re

from shop.specification.order import AWAITING, PAID, Event, Order
from shop.specification.sale import Sale
from shop.specification.told import figure
from shop.tests.specification.page import Node, forms
from shop.tests.specification.world import Person, World

OFFERED = {
    "open": "On sale now",
    "not_started": "Coming soon",
    "paused": "Paused",
    "sold_out": "Sold out",
    "may_come_back": "All reserved, may come back",
    "ended": "Ended",
}
STANDS = {
    "awaiting_payment": "Awaiting payment",
    "paid": "Paid",
    "expired": "Expired",
    "cancelled": "Cancelled",
    "fulfilled": "Handed over",
    "refund_pending": "Refund in progress",
    "refunded": "Refunded",
}
ABOUT = {
    "awaiting_payment": "reserved. Please pay before the deadline",
    "paid": "Payment received",
    "expired": "not paid in time",
    "cancelled": "You cancelled this order",
    "fulfilled": "has been handed over",
    "refund_pending": "Your refund is in progress",
    "refunded": "your payment has been refunded",
}
HISTORY = {
    "paid": "Paid",
    "paid_late": "Paid after the deadline; the items were still available",
    "fulfilled": "Handed over",
    "expired": "Not paid in time",
    "cancelled": "Cancelled",
    "returned": "Returned",
    "refunded": "Refund complete",
    "payment_failed": "Payment failed; you were not charged",
    "part_cancelled": "Partly cancelled",
    "part_returned": "Partly returned",
    "money_owed": "Paid too late or too much; the excess will be refunded",
    "money_back": "Money refunded",
    "refund_failed": "The refund failed; we are looking into it",
}
SYMBOLS = {"CNY": "CN¥", "EUR": "€", "JPY": "¥", "KWD": "KWD"}
SHELVES = {"open": "on_now", "paused": "on_now", "not_started": "coming_up"}


def money(amount: int, currency: str) -> str:
    """Return an amount as an English page shows it."""
    return SYMBOLS[currency] + figure(amount, currency)


def facts(page: Node) -> list[tuple[str, str]]:
    """Return the facts of a page, in their order."""
    pairs = list(page.all("dl", css="facts"))
    return [(div.one("dt").text, div.one("dd").text) for dl in pairs for div in dl.all("div")]


def badge(sale: Sale, world: World) -> str:
    """Return the status that a sale's page shows."""
    status = sale.status(world.model.now)
    coming = status == "sold_out" and world.model.may_come_back(sale)
    return "may_come_back" if coming else status


def check_offer(node: Node, sale: Sale, world: World) -> None:
    """Compare what a card or a page says of a sale."""
    shown, status = badge(sale, world), sale.status(world.model.now)
    assert node.attributes["data-status"] == status
    assert ("data-may-come-back" in node.attributes) == (shown == "may_come_back")
    assert node.one("p", data_badge="").text == OFFERED[shown]
    assert node.one("span", data_left="").text == f"{sale.available} of {sale.total} left"
    meter = node.one("meter").attributes
    assert (meter["value"], meter["max"]) == (str(sale.available), str(sale.total))
    price = f"Sale price {money(sale.price, sale.currency)}"
    if (percent := (sale.list_price - sale.price) * 100 // max(sale.list_price, 1)) > 0:
        price += f" List price {money(sale.list_price, sale.currency)} {percent}% off"
    assert node.one("p", css="price").text == price
    [line] = node.all("p", data_countdown_line="")
    assert ("hidden" in line.attributes) == (status in ("sold_out", "ended"))
    words = "Starts in" if status == "not_started" else "Ends in"
    assert line.one("span").text == words
    ends = sale.opens if status == "not_started" else sale.closes
    assert world.second(line.one("time").attributes["datetime"]) == ends


def check_home(person: Person, world: World) -> None:
    """Compare the home page."""
    found = {}
    for shelf in person.visit("/").all("section"):
        for card in shelf.all("article"):
            found[card.attributes["data-sale"]] = shelf.attributes["aria-labelledby"]
            [sale] = [
                s for s, row in world.rows.items() if card.attributes["data-sale"] == str(row.pk)
            ]
            check_offer(card, sale, world)
    wanted = {
        str(row.pk): SHELVES.get(sale.status(world.model.now), "over")
        for sale, row in world.rows.items()
    }
    assert found == wanted


def check_sale_page(person: Person, sale: Sale, world: World) -> None:
    """Compare a sale's page and its forms."""
    row = world.rows[sale]
    where = f"/sales/{row.pk}/"
    page = person.visit(where)
    status = sale.status(world.model.now)
    check_offer(page.one("article"), sale, world)
    minutes = max(sale.hold // 60, 1)
    told = dict(facts(page))
    assert told["Limit per buyer"] == str(sale.limit)
    assert told["Time to pay"] == f"{minutes} minute{'' if minutes == 1 else 's'}"
    window = [
        world.second(t.attributes["datetime"]) for t in page.one("dl", css="facts").all("time")
    ]
    assert window == [sale.opens, sale.closes]
    buy, *to_cart = forms(page, where)
    assert buy.values.keys() == {"csrfmiddlewaretoken", "key", "quantity"}
    assert buy.values["quantity"] == "1"
    assert buy.limits["quantity"] == (("1", str(sale.limit)) if sale.limit > 1 else ("", ""))
    assert buy.disabled == (status != "open")
    assert [form.action for form in to_cart] == [f"/cart/{row.pk}/"] * (
        status in ("open", "not_started")
    )
    mine = [
        (f"Order {world.orders[order]}", STANDS[order.status])
        for order in reversed(world.model.of(person.name))
        if any(line.sale is sale for line in order.lines)
    ][:10]
    listed = [li for section in page.all("section", css="mine") for li in section.all("li")]
    assert [(li.one("a").text, li.one("span").text) for li in listed] == mine


def check_cart(person: Person, world: World, page: Node | None = None) -> None:
    """Compare the cart's page."""
    page = page or person.visit("/cart/")
    cart = world.model.carts.get(person.name, {})
    [link] = page.one("nav", aria_label="Main navigation").all("a", href="/cart/")
    assert link.text == (f"Cart ({len(cart)})" if cart else "Cart")
    lines = [
        (
            str(row.pk),
            OFFERED[sale.status(world.model.now)],
            str(cart[sale]),
            str(sale.limit),
            money(cart[sale] * sale.price, sale.currency),
        )
        for sale, row in world.rows.items()
        if sale in cart
    ]
    found = []
    for tr in page.all("tr", data_line=None):
        box = tr.one("input", type="number").attributes
        amount = next(tr.all("td", css="number")).text
        found.append(
            (
                tr.attributes["data-line"],
                tr.one("span", css="badge").text,
                box["value"],
                box["max"],
                amount,
            )
        )
    assert found == lines
    if cart:
        total = sum(sale.price * units for sale, units in cart.items())
        written = money(total, next(iter(cart)).currency)
        assert page.one("tfoot").one("strong").text == written
        assert page.one("button", data_checkout="").text == f"Buy all for {written}"


def check_orders(person: Person, world: World) -> None:
    """Compare the list of a buyer's orders."""
    page = person.visit("/orders/")
    found = []
    for tr in (row for body in page.all("tbody") for row in body.all("tr")):
        what, _, amount, status = [td.text for td in tr.all("td")]
        found.append((tr.one("th").text, what, amount, status))
    wanted = [
        (
            str(world.orders[order]),
            _contents(order),
            money(order.amount, order.currency),
            STANDS[order.status],
        )
        for order in reversed(world.model.of(person.name))
    ]
    assert found == wanted[:20]


def _contents(order: Order) -> str:
    many = [f" × {line.quantity}" if line.quantity > 1 else "" for line in order.lines]
    return "".join(line.sale.name + text for line, text in zip(order.lines, many, strict=True))


def check_order_page(person: Person, order: Order, world: World) -> Node:
    """Compare an order's page: its figures, its history, and what it offers."""
    pk, now = world.orders[order], world.model.now
    where = f"/orders/{pk}/"
    page = person.visit(where, order)
    status = order.shown(now)
    assert page.one("p", css="badge").text == STANDS[status]
    assert ABOUT[status] in page.one("div", css="order-head").text
    pending = any(payment.state == "pending" for payment in order.payments)
    assert len(list(page.all("p", data_waiting=""))) == (status == AWAITING and pending)
    told = facts(page)
    times = {name for name, _ in told} >= {"Ordered on", "Pay before"}
    assert times
    wanted = []
    for line in order.lines:
        live = order.live(line)
        gone = f", of which {line.quantity - live} returned" if 0 < live < line.quantity else ""
        wanted += [("Product", line.sale.name), ("Quantity", f"{line.quantity}{gone}")]
    wanted.append(("Amount", money(order.amount, order.currency)))
    if order.refunded:
        wanted.append(("Amount refunded", money(order.refunded, order.currency)))
    assert told[:-2] == wanted
    deadline = list(page.one("dl", css="facts").all("time"))[-1]
    assert world.second(deadline.attributes["datetime"]) == order.pay_before
    history = [
        (li.attributes["data-event"], li.one("span").text) for li in page.all("li", data_event=None)
    ]
    assert history == [(event.kind, _line(event, order.currency)) for event in order.timeline]
    assert _offered(page, where) == _offers(order, status, pk, world)
    return page


def _line(event: Event, currency: str) -> str:
    text = HISTORY[event.kind]
    if event.quantity and event.sale:
        text += f" · {event.quantity} × {event.sale.name}"
    return text + (f" · {money(event.amount, currency)}" if event.amount else "")


Offered = list[tuple[str, str, str, str]]


def _offered(page: Node, where: str) -> Offered:
    found: Offered = []
    for form in forms(page, where):
        assert "csrfmiddlewaretoken" in form.values
        sale, most = form.values.get("sale", ""), form.limits.get("quantity", ("", ""))[1]
        if sale:
            assert (form.values["quantity"], bool(form.values["key"])) == ("1", True)
        found.append((form.action, form.button, sale, most))
    return found


def _offers(order: Order, status: str, pk: int, world: World) -> Offered:
    if status not in (AWAITING, PAID):
        return []
    end, words, some = ("cancel", "Cancel order", "Cancel some")
    offers: Offered = []
    if status == AWAITING:
        offers.append(
            (f"/orders/{pk}/payment/", f"Pay {money(order.amount, order.currency)}", "", "")
        )
    else:
        end, words, some = ("refund", "Return for a refund", "Return some")
    offers.append((f"/orders/{pk}/{end}/", words, "", ""))
    for line in order.lines:
        if order.live(line) > 1 or (order.live(line) and len(order.lines) > 1):
            sale = str(world.rows[line.sale].pk)
            offers.append((f"/orders/{pk}/{end}/", some, sale, str(order.live(line))))
    return offers


def amounts(text: str, currency: str) -> list[str]:
    """Return the amounts in a text, without their currency's symbol."""
    symbol = re.escape(SYMBOLS[currency].strip())
    return [found[1] for found in re.finditer(rf"{symbol}\s?([\d.,]*\d)", text)]
