"""What people see: every figure and every form of a page is the model's, in both languages."""

from __future__ import annotations

from collections.abc import Iterator

from shop.orders.models import Order as Row
from shop.specification.order import AWAITING, Event, Line, Order, Sale
from shop.tests.specification import words
from shop.tests.specification.page import Node, forms
from shop.tests.specification.people import Person
from shop.tests.specification.world import World, moment

SHELVES = {"open": "on_now", "paused": "on_now", "not_started": "coming_up"}


def facts(page: Node) -> list[tuple[str, str]]:
    """Return the facts of a page, in their order."""
    pairs = list(page.all("dl", css="facts"))
    return [(div.one("dt").text, div.one("dd").text) for dl in pairs for div in dl.all("div")]


def seconds(node: Node, world: World) -> list[int]:
    """Return the times that are shown, as seconds of the story; their text says the same."""
    found = []
    for time in node.all("time"):
        when = moment(time.attributes["datetime"])
        if when.minute:  # which a time in English leaves out
            assert f":{when.minute:02}" in time.text
        found.append(world.second(when))
    return found


def badge(sale: Sale, world: World) -> str:
    """Return the status that a sale's page shows."""
    status = world.model.status(sale)
    coming = status == "sold_out" and world.model.may_come_back(sale)
    return "may_come_back" if coming else status


def look(person: Person, where: str, world: World, order: Order | None = None) -> Node:
    """Visit a page, and compare what all have: a title, the time, and links by their names."""
    page, said = person.visit(where, order), person.says
    assert page.one("title").text.startswith(page.one("h1").text)
    [back] = page.one("form", css="languages").all("input", name="next")
    assert back.attributes["value"] == where, "a choice of language leads elsewhere"
    for clock in page.all(data_now=None):
        assert world.second(clock.attributes["data-now"]) == world.model.now
    lead = {said("Order {}", number): f"/orders/{number}/" for number in world.orders.values()}
    lead |= {said(sale.name): f"/sales/{row.pk}/" for sale, row in world.rows.items()}
    for link in page.one("main").all("a"):
        assert link.attributes["href"] == lead.get(link.text, link.attributes["href"])
    return page


def check_offer(node: Node, person: Person, sale: Sale, world: World) -> None:
    """Compare what a card or a page says of a sale."""
    shown, status, said = badge(sale, world), world.model.status(sale), person.says
    assert node.attributes["data-status"] == status
    times = [world.second(node.attributes[f"data-{name}"]) for name in ("starts", "ends")]
    assert times == [sale.opens, sale.closes]
    assert ("data-may-come-back" in node.attributes) == (shown == "may_come_back")
    assert node.one("p", data_badge="").text == said(words.SALE[shown])
    names = [h.text for tag in ("h1", "h3") for h in node.all(tag)]
    assert names == [said(sale.name)]
    available = world.model.available(sale)
    left = said("{} of {} left", available, sale.total)
    assert node.one("span", data_left="").text == left
    meter = node.one("meter").attributes
    assert (meter["value"], meter["max"]) == (str(available), str(sale.total))
    price = f"{said('Sale price')} {person.money(sale.price, sale.currency)}"
    percent = (sale.list_price - sale.price) * 100 // max(sale.list_price, 1)
    if percent > 0 and words.listed_in(sale) == sale.currency:
        price += f" {said('List price')} {person.money(sale.list_price, sale.currency)} "
        price += said("{}% off", percent)
    assert node.one("p", css="price").text == price
    [line] = node.all("p", data_countdown_line="")
    assert ("hidden" in line.attributes) == (status in ("sold_out", "ended"))
    assert line.one("span").text == said("Starts" if status == "not_started" else "Ends")
    assert seconds(line, world) == [sale.opens if status == "not_started" else sale.closes]


def check_home(person: Person, world: World) -> None:
    """Compare the home page: its shelves, and what stands on each, in order."""
    now, found = world.model.now, {}
    page = look(person, "/", world)
    for shelf in page.all("section"):
        name = shelf.attributes["aria-labelledby"]
        assert shelf.one("h2").text == person.says(words.SHELVES[name])
        found[name] = [card.attributes["data-sale"] for card in shelf.all("article")]
    latest = sorted(world.rows.items(), key=lambda each: (-each[0].opens, -each[1].pk))
    # What is gone comes last, and before it what is sold out; the next to open comes first.
    latest.sort(key=lambda each: 2 * (now >= each[0].closes) or not world.model.available(each[0]))
    wanted: dict[str, list[str]] = {}
    for sale, row in latest:
        wanted.setdefault(SHELVES.get(world.model.status(sale), "over"), []).append(str(row.pk))
    wanted.get("coming_up", []).reverse()
    assert found == wanted
    for sale, row in latest:
        [card] = page.all("article", data_sale=str(row.pk))
        check_offer(card, person, sale, world)
        assert {a.attributes["href"] for a in card.all("a")} == {f"/sales/{row.pk}/"}


def check_sale_page(person: Person, sale: Sale, world: World) -> None:
    """Compare a sale's page and its forms."""
    row, said = world.rows[sale], person.says
    where = f"/sales/{row.pk}/"
    page = look(person, where, world)
    status = world.model.status(sale)
    check_offer(page.one("article"), person, sale, world)
    assert page.one("p", css="about").text == said(words.ABOUT_SALE[sale.name])
    minutes, told = max(sale.hold // 60, 1), dict(facts(page))
    to_pay = said("{} minute" + "s" * (minutes > 1), minutes) if world.model.payments else None
    assert told[said("Limit per buyer")] == str(sale.limit)
    assert told.get(said("Time to pay")) == to_pay
    assert seconds(page.one("dl", css="facts"), world) == [sale.opens, sale.closes]
    soon = 0 < sale.opens - world.model.now < 86_400
    refresh = [node.attributes["content"] for node in page.all("meta", http_equiv="refresh")]
    assert refresh == [str(sale.opens - world.model.now)] * soon
    if person.visits_only:
        _check_invitation(page, person, where, status)
        return
    buy, *to_cart = forms(page, where)
    # A team's own details of an order are asked for too; the specification does not know them.
    assert buy.values.keys() == {"csrfmiddlewaretoken", "key", "quantity", *Row.DETAILS}
    assert buy.values["quantity"] == "1"
    assert buy.limits["quantity"] == (("1", str(sale.limit)) if sale.limit > 1 else ("", ""))
    assert buy.disabled == (status != "open")
    button = {"open": "Buy now", "not_started": "Not open yet"}
    shown = badge(sale, world)
    assert buy.button == said(button.get(status, words.SALE[shown]))
    hint = {"open": words.TWICE, "may_come_back": words.UNPAID}.get(shown, "")
    assert status == "not_started" or page.one("p", css="hint").text == said(hint)
    assert [form.action for form in to_cart] == [f"/cart/{row.pk}/"]
    hidden = "hidden" in page.one("p", css="to-cart").attributes
    assert hidden == (status not in ("open", "not_started"))
    mine = [
        (said("Order {}", world.orders[order]), said(world.texts.order[order.status]))
        for order in reversed(world.model.of(person.name))
        if any(line.sale is sale for line in order.lines)
    ][:10]
    listed = [li for section in page.all("section", css="mine") for li in section.all("li")]
    assert [(li.one("a").text, li.one("span").text) for li in listed] == mine


def _check_invitation(page: Node, person: Person, where: str, status: str) -> None:
    assert not list(page.all("section", css="mine"))
    assert not [form for form in forms(page, where) if "key" in form.values]
    invitation = page.one("p", css="buy")
    assert ("hidden" in invitation.attributes) == (status in ("ended", "sold_out"))
    link = invitation.one("a")
    assert (link.text, link.attributes["href"]) == (
        person.says("Sign in to buy"),
        f"/sign-in/?next={where}",
    )


def check_cart(person: Person, world: World, page: Node | None = None) -> None:
    """Compare the cart's page."""
    page, said = page or look(person, "/cart/", world), person.says
    cart = world.model.carts.get(person.name, {})
    [link] = page.one("header").all("a", href="/cart/")
    assert link.text == said("Cart") + (f" ({len(cart)})" if cart else "")
    lines = [
        (
            str(row.pk),
            said(sale.name),
            said(words.SALE[world.model.status(sale)]),
            str(cart[sale]),
            str(sale.limit),
            person.money(cart[sale] * sale.price, sale.currency),
        )
        for sale, row in world.rows.items()
        if sale in cart
    ]
    found = []
    for tr in page.all("tr", data_line=None):
        box = tr.one("input", type="number").attributes
        found.append(
            (
                tr.attributes["data-line"],
                tr.one("th").text,
                tr.one("span", css="badge").text,
                box["value"],
                box["max"],
                next(tr.all("td", css="number")).text,
            )
        )
    assert found == lines
    assert (said("Your cart is empty.") in page.text) == (not cart)
    if cart:
        total = sum(sale.price * units for sale, units in cart.items())
        written = person.money(total, next(iter(cart)).currency)
        assert page.one("tfoot").one("strong").text == written
        if not person.visits_only:
            assert page.one("button", data_checkout="").text == said("Buy all for {}", written)


def check_orders(person: Person, world: World) -> None:
    """Compare the list of a buyer's orders."""
    page, said = look(person, "/orders/?page=1", world), person.says
    found = []
    for tr in (row for body in page.all("tbody") for row in body.all("tr")):
        what, _, amount, status = [td.text for td in tr.all("td")]
        assert all(second <= world.model.now for second in seconds(tr, world))
        link = tr.one("th").one("a")
        found.append((link.text, link.attributes["href"], what, amount, status))
    wanted = [
        (
            str(pk := world.orders[order]),
            f"/orders/{pk}/",
            _contents(person, order),
            person.money(order.amount, order.currency),
            said(world.texts.order[order.status]),
        )
        for order in reversed(world.model.of(person.name))
    ]
    assert found == wanted[:20]
    assert (said("You have no orders yet.") in page.text) == (not wanted)


def _contents(person: Person, order: Order) -> str:
    lines = []
    for line in order.lines:
        units = _units(person, order, line)
        lines.append(person.says(line.sale.name) + (f" × {units}" if units != "1" else ""))
    return " ".join(lines)


def _units(person: Person, order: Order, line: Line) -> str:
    back = line.quantity - line.kept
    if not (back and any(map(order.live, order.lines))):
        return str(line.quantity)
    return person.says("{}, of which {} cancelled or returned", line.quantity, back)


def check_order_page(person: Person, order: Order, world: World) -> Node:
    """Compare an order's page: its figures, its history, and what it offers."""
    pk, said = world.orders[order], person.says
    where = f"/orders/{pk}/"
    page = look(person, where, world, order)
    status = order.shown(world.model.now)
    head = page.one("div", css="order-head")
    assert (head.one("h1").text, head.one("p", css="badge").text) == (
        said("Order {}", pk),
        said(world.texts.order[status]),
    )
    assert said(world.texts.about[status]) in head.text
    pays = world.model.payments
    pending = not pays or any(payment.state == "pending" for payment in order.payments)
    assert len(list(page.all("p", data_waiting=""))) == (status == AWAITING and pending)
    told, wanted = facts(page), list(_facts(person, order))
    assert told[: len(wanted)] == wanted
    assert [name for name, _ in told[len(wanted) :]] == [said("Ordered on"), said("Pay before")][
        : 1 + pays
    ]
    times = [world.opened[order], order.pay_before][: 1 + pays]
    assert seconds(page.one("dl", css="facts"), world) == times
    assert len(list(page.all("p", css="countdown"))) == (status == AWAITING and pays)
    for left in page.all("p", css="countdown"):
        assert seconds(left, world) == [order.pay_before]
        assert world.second(left.one(data_until=None).attributes["data-until"]) == order.pay_before
    history = page.one("section", css="timeline")
    assert [
        (li.attributes["data-event"], li.one("span").text)
        for li in history.all("li", data_event=None)
    ] == [(event.kind, _line(event, person, order, world)) for event in order.timeline]
    row = world.row(order)  # lines of the history cannot be moved in time
    written = [row.created, *row.events.values_list("created", flat=True)]
    assert [moment(time.attributes["datetime"]) for time in history.all("time")] == written
    assert list(_offered(page, where)) == list(_offers(person, order, status, world))
    return page


def _facts(person: Person, order: Order) -> Iterator[tuple[str, str]]:
    said = person.says
    for line in order.lines:
        yield said("Product"), said(line.sale.name)
        yield said("Quantity"), _units(person, order, line)
    yield said("Amount"), person.money(order.amount, order.currency)
    if order.refunded:
        yield said("Amount refunded"), person.money(order.refunded, order.currency)


def _line(event: Event, person: Person, order: Order, world: World) -> str:
    text = person.says(world.texts.history[event.kind])
    if event.quantity and event.sale:
        text += f" · {event.quantity} × {person.says(event.sale.name)}"
    return text + (f" · {person.money(event.amount, order.currency)}" if event.amount else "")


Offered = Iterator[tuple[str, str, str, str]]


def _offered(page: Node, where: str) -> Offered:
    for form in forms(page, where):
        assert "csrfmiddlewaretoken" in form.values
        sale, most = form.values.get("sale", ""), form.limits.get("quantity", ("", ""))[1]
        if sale:
            assert (form.values["quantity"], bool(form.values["key"])) == ("1", True)
        yield form.action, form.button, sale, most


def _offers(person: Person, order: Order, status: str, world: World) -> Offered:
    if status not in (AWAITING, "paid"):
        return
    where, said = f"/orders/{world.orders[order]}", person.says
    end, words_, some = "cancel", "Cancel order", "Cancel some"
    if status == "paid":
        end, some = "refund", "Return some"
        words_ = "Return for a refund" if world.model.payments else "Return"
    elif world.model.payments:
        amount = person.money(order.amount, order.currency)
        yield f"{where}/payment/", said("Pay {}", amount), "", ""
    yield f"{where}/{end}/", said(words_), "", ""
    for line in order.lines:
        if order.live(line) > 1 or (order.live(line) and len(order.lines) > 1):
            sale = str(world.rows[line.sale].pk)
            yield f"{where}/{end}/", said(some), sale, str(order.live(line))
