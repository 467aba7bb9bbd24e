"""The door of operators: the admin."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from decimal import Decimal
from typing import Any

from django.urls import reverse

from shop.payments.models import Refund as RefundRow
from shop.specification.order import Money, Order, Sale
from shop.tests.specification.commands import Commands
from shop.tests.specification.doors import asked
from shop.tests.specification.page import Node, forms, read, rows
from shop.tests.specification.words import figure, listed_in
from shop.tests.specification.world import World

REASONS = {
    "returned": "the buyer returned it",
    "too_late": "paid after the order had ended",
    "too_much": "more was paid than was still ordered",
}
KINDS = {
    "paid_late": "paid late, and the units were still there",
    "part_cancelled": "part of it cancelled",
    "part_returned": "part of it returned",
    "money_owed": "paid too late or too much: money goes back",
    "money_back": "money given back",
    "refund_failed": "money could not be given back",
}
"""How the admin calls events whose name says too little."""
ENDED = ("cancelled", "expired", "refunded")
CAPTURED = {"done": "captured"}
"""How the shop calls a payment that is done."""
FIELDS = {"restock_cancelled": "resells_cancelled", "restock_returned": "resells_returned"}


def page_of(model: str) -> str:
    """Return the address of a list in the admin."""
    return reverse(f"admin:{model}_changelist")


class Operator(Commands):
    """An operator with all permissions, and what the admin must show."""

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self.browser = world.staff
        self.log: list[str] = []  # what the admin must have noted of acts

    def page(self, name: str, *arguments: Any) -> Node:
        """Open a page of the admin."""
        answer = self.browser.get(reverse(f"admin:{name}", args=arguments))
        assert answer.status_code == 200, (name, answer.status_code)
        return read(answer.content.decode())

    def does(self, model: str, action: str, *chosen: int) -> str:
        """Run an action of a list; return the messages that it leaves."""
        form = {"action": action, "_selected_action": chosen}
        return self.sends(page_of(model), form)

    def sends(self, where: str, form: Any) -> str:
        """Send a form; return the messages on the page that it leads to."""
        answer = self.browser.post(where, form, follow=True)
        page = read(answer.content.decode())
        assert answer.redirect_chain, page.text[:2000]
        return " ".join(node.text for node in page.all("ul", css="messagelist"))

    # --- acts -------------------------------------------------------------------------------

    def pause(self, sale: Sale, *, paused: bool) -> None:
        """Pause a sale and the last one, or resume them."""
        chosen = [sale, self.model.sales[-1]]  # the second may be the same
        changed = len({each for each in chosen if each.paused != paused})
        numbers = [self.world.rows[each].pk for each in chosen]
        said = self.does("shop_sale", "pause" if paused else "resume", *numbers)
        assert said == f"Sales {'paused' if paused else 'resumed'}: {changed}."
        self.log += ["Paused." if paused else "Resumed."] * changed
        for each in chosen:
            each.paused = paused

    def hand_over(self, order: Order) -> None:
        """Mark an order as handed over."""
        before, pk = order.status, self.world.orders[order]
        asked(order.hand_over)
        done = before in ("paid", "fulfilled")
        left = {n: o.status for o, n in self.world.orders.items() if o.status in ENDED}
        left |= {} if done else {pk: before}
        told: dict[str, list[str]] = {}
        for number, status in sorted(left.items(), reverse=True):
            told.setdefault(status, []).append(str(number))
        said = [f"Orders handed over: {int(done)}."]
        said += [f"Not handed over, because {s}: {', '.join(each)}." for s, each in told.items()]
        assert self.does("shop_order", "fulfil", pk, *left) == " ".join(said)
        self.log += ["Handed over."] * done

    def retry(self, failed: list[tuple[Order, Money]]) -> None:
        """Request refunds again that the provider refused."""
        rows = self.refunds()
        found = [rows[o.refunds.index(each), self.world.orders[o]].pk for o, each in failed]
        for _, refund in failed:
            self.model.retry(refund)
        others = [each.pk for each in rows.values() if each.state != "failed"]
        said = self.does("shop_refund", "retry", *found, *others)
        assert said == f"Refunds requested again: {len(found)}."
        self.log += ["Requested again."] * len(found)

    def restock(self, sale: Sale, units: int, *, twice: bool) -> None:
        """Add units by the form, perhaps by sending it twice."""
        where = reverse("admin:inventory_item_restock", args=[self.world.rows[sale].item_id])
        [form] = [
            f
            for f in forms(read(self.browser.get(where).content.decode()), where)
            if "total" in f.values
        ]
        values = {**form.values, "units": str(units)}
        for other in (sale.total - 1, sale.total + 1):  # as it was shown before
            old = values | {"total": str(other)}
            assert self.sends(where, old).startswith("Nothing was added")
        self.world.restocked(sale, units)
        added = f"Added {units} units: {self.model.available(sale)} are available."
        assert self.sends(where, values) == added
        self.log.append(added)
        if twice:
            assert self.sends(where, values).startswith("Nothing was added")

    def edit(self, sale: Sale, change: dict[str, Any]) -> None:
        """Save a sale's form as it is shown, but for some changes."""
        row = self.world.rows[sale]
        where = reverse("admin:shop_sale_change", args=[row.pk])
        page = read(self.browser.get(where).content.decode())
        [form] = [f for f in forms(page, where) if "hold" in f.values]
        assert not form.values.keys() & {"product", "item", "currency"}, "orders depend on these"
        assert form.values["price"] == figure(sale.price, sale.currency, grouped=False)
        values = dict(form.values)
        for name, value in change.items():
            setattr(sale, FIELDS.get(name, name), value)
            if isinstance(value, bool):
                values.pop(name, None)
                values |= {name: "on"} if value else {}
            elif name == "price":
                values[name] = figure(value, sale.currency, grouped=False)
            elif name == "hold":
                values[name] = f"00:{value // 60:02}:{value % 60:02}"
            elif name == "limit":
                values[name] = str(value)
            else:
                when = self.world.at(value).replace(microsecond=0)
                values |= {"ends_at_0": f"{when:%Y-%m-%d}", "ends_at_1": f"{when:%H:%M:%S}"}
                sale.closes = self.world.second(when)
        assert "was changed successfully" in self.sends(where, values)

    def edit_product(self, sale: Sale, list_price: int) -> None:
        """Save the form of a sale's product with another list price, then with other currencies."""
        where = reverse("admin:shop_product_change", args=[self.world.rows[sale].product_id])
        currency = listed_in(sale)
        shown = figure(sale.list_price, currency, grouped=False)
        wanted = figure(list_price, currency, grouped=False)
        for change in ({"list_price": wanted}, {"currency": "KWD"}, {"currency": currency}):
            page = read(self.browser.get(where).content.decode())
            [form] = [f for f in forms(page, where) if "list_price" in f.values]
            assert Decimal(form.values["list_price"]) == Decimal(shown)
            assert "was changed successfully" in self.sends(where, {**form.values, **change})
            shown = wanted
        sale.list_price = list_price

    # --- what the admin shows ---------------------------------------------------------------

    def refunds(self) -> dict[tuple[int, int], RefundRow]:
        """Return the refunds by their place in their order, and the order's number."""
        found: dict[tuple[int, int], RefundRow] = {}
        for row in RefundRow.objects.select_related("payment").order_by("pk"):
            order = row.payment.order_id
            found[sum(each[1] == order for each in found), order] = row
        return found

    def check_lists(self) -> None:
        """Compare the lists of sales, stock, orders and refunds."""
        model = self.model
        newest = list(reversed(self.world.rows.items()))
        shown = ("product", "status", "stock", "money", "limit", "window")
        assert self._listed("shop_sale", *shown) == [
            (
                sale.name,
                self.model.status(sale),
                f"{self.model.available(sale)} of {sale.total}",
                self._plain(sale.price, sale.currency),
                str(sale.limit),
                self._window(sale),
            )
            for sale, _ in newest
        ]
        items = ("name", "available", "reserved", "total", "balanced")
        assert self._listed("inventory_item", *items) == [
            (
                s.name,
                str(model.available(s)),
                str(model.held(s, model.orders)),
                str(s.total),
                "True",
            )
            for s, _ in newest
        ]
        assert sorted(self._listed("shop_product", "name", "money")) == [
            (sale.name, self._plain(sale.list_price, listed_in(sale)))
            for sale in sorted(self.model.sales, key=lambda each: each.name)
        ]
        noted = [text for (text,) in self._listed("admin_logentry", "change_message")]
        # A form's own changes are noted as JSON.
        assert [text for text in noted if not text.startswith("[")] == self.log[::-1]
        if self.model.orders:
            self._check_orders()
        if found := self.refunds():
            wanted = []
            for (place, pk), row in found.items():
                [order] = [each for each, number in self.world.orders.items() if number == pk]
                refund = order.refunds[place]
                money = self._plain(refund.amount, order.currency)
                reason = REASONS[refund.reason]
                wanted.append((str(row.pk), str(pk), money, reason, refund.state))
            owed = self._listed("shop_refund", "id", "order", "money", "reason", "state")
            assert sorted(owed) == sorted(wanted)

    def check_waiting(self, dead: int) -> None:
        """Compare the list of messages: what waits, and what was given up."""
        page = self.page("inventory_outboxmessage_changelist")
        waits = len(self.world.outbox) + len(self.world.mails) - dead
        assert page.one("p", css="figures").text.startswith(
            f"{waits} waiting · 0 put off · {dead} dead"
        )
        assert ("nothing waits" in page.one("p", css="figures").text) == (not waits)
        for state, count in (("waiting", waits), ("dead", dead)):
            answer = self.browser.get(page_of("inventory_outboxmessage"), {"state": state})
            found = list(read(answer.content.decode()).all("table", id="result_list"))
            assert sum(len(list(table.one("tbody").all("tr"))) for table in found) == count
        if waits + dead:
            states = Counter(row["state"] for row in rows(page))
            assert (states["waiting"], states["dead"]) == (waits, dead)
        for row in rows(page) if dead else ():
            assert row["state"] != "dead" or row["error"].startswith("OSError")

    def check_alerts(self, late: list[str]) -> None:
        """Compare the list of alerts: those that are open come first."""
        if listed := self._listed("shop_alert", "text", "gone"):
            assert sorted(text for text, gone in listed[: len(late)] if gone == "False") == late
            assert {gone for _, gone in listed[len(late) :]} <= {"True"}
        else:
            assert not late

    def _listed(self, model: str, *columns: str) -> list[tuple[str, ...]]:
        """Return some columns of a list in the admin."""
        page = self.page(f"{model}_changelist")
        if not list(page.all("table", id="result_list")):
            return []
        return [tuple(row[name] for name in columns) for row in rows(page)]

    def _window(self, sale: Sale) -> str:
        row = self.world.rows[sale]
        row.refresh_from_db()
        opens, closes = row.starts_at, row.ends_at
        end = f"{closes:%H:%M}"
        if opens.date() != closes.date():
            end = f"{closes.day} {closes:%b} {end}"
        return f"{opens.day} {opens:%b %H:%M} to {end}"

    def _plain(self, amount: int, currency: str) -> str:
        return f"{figure(amount, currency, grouped=False)} {currency}"

    def _check_orders(self) -> None:
        listed = rows(self.page("shop_order_changelist"))
        wanted = []
        for order in reversed(self.model.orders):
            what = ", ".join(f"{line.quantity} × {line.sale.name}" for line in order.lines)
            name = self.world.people[order.buyer].buyer.user.username
            money = self._plain(order.amount, order.currency)
            wanted.append((what, name, money, order.status.replace("_", " ")))
        assert [(r["what"], r["buyer"], r["money"], r["status"]) for r in listed] == wanted
        chosen = self.model.orders[0]
        buyer, sale = self.world.people[chosen.buyer].buyer.user, chosen.lines[0].sale
        number = self.world.rows[sale].pk
        searches: dict[tuple[str, str], Callable[[Order], bool]] = {
            ("q", buyer.username): lambda order: order.buyer == chosen.buyer,
            ("q", str(chosen.key)): lambda order: order.key == chosen.key,
            ("q", str(number)): lambda order: (
                self.world.orders[order] == number or sale in [line.sale for line in order.lines]
            ),
            ("status__exact", chosen.status): lambda order: order.status == chosen.status,
        }
        for search, fits in searches.items():
            answer = self.browser.get(page_of("shop_order"), dict([search]))
            found = [int(row["id"]) for row in rows(read(answer.content.decode()))]
            matching = [order for order in reversed(self.model.orders) if fits(order)]
            assert found == [self.world.orders[order] for order in matching], search

    def check_order(self, order: Order) -> None:
        """Compare the page of an order."""
        page = self.page("shop_order_change", self.world.orders[order])
        fields = {
            "buyer": self.world.people[order.buyer].buyer.user.username,
            "money": self._plain(order.amount, order.currency),
            "back": self._plain(order.refunded, order.currency),
            "status": order.status.replace("_", " "),
        }
        for name, text in fields.items():
            assert page.one("div", css=f"field-{name}").one("div", css="readonly").text == text
        lines = self._inline(page, "lines")
        assert [(r["quantity"], r["returned"], r["money"]) for r in lines] == [
            (
                str(line.quantity),
                str(line.quantity - order.live(line)),
                self._plain(line.price * line.quantity, order.currency),
            )
            for line in order.lines
        ]
        events = self._inline(page, "events")
        assert [(r["kind"], r["quantity"], r["money"]) for r in events] == [
            (
                KINDS.get(event.kind, event.kind.replace("_", " ")),
                str(event.quantity or "-"),
                "-" if event.amount is None else self._plain(event.amount, order.currency),
            )
            for event in order.timeline
        ]
        assert sorted(
            (r["state"], r["money"], r["back"]) for r in self._inline(page, "payments")
        ) == sorted(
            (
                CAPTURED.get(payment.state, payment.state),
                self._plain(payment.amount, order.currency),
                self._plain(order.owed_back(payment), order.currency),
            )
            for payment in order.payments
        )

    def _inline(self, page: Node, name: str) -> list[dict[str, str]]:
        found = []
        for row in page.one("div", id=f"{name}-group").one("tbody").all("tr"):
            if "empty-form" not in row.attributes.get("class", ""):
                names = {td: td.attributes.get("class", "") for td in row.all("td")}
                found.append(
                    {
                        c.removeprefix("field-"): td.text
                        for td, c in names.items()
                        if c.startswith("field-")
                    }
                )
        return found
