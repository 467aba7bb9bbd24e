"""The doors of operators: the admin, and the commands."""

from __future__ import annotations

import json
from contextlib import suppress
from io import StringIO
from typing import Any

from django.core.management import call_command
from django.test import Client
from django.urls import reverse

from shop.accounts.models import User
from shop.payments.models import Refund as RefundRow
from shop.specification.money import Refund
from shop.specification.order import FULFILLED, PAID, Order
from shop.specification.sale import Sale
from shop.specification.told import figure
from shop.tests.specification.doors import asked
from shop.tests.specification.page import Node, forms, read, rows
from shop.tests.specification.world import World


class Operator:
    """An operator with all permissions, and what the admin must show."""

    def __init__(self, world: World) -> None:
        self.world, self.model = world, world.model
        self.browser = Client()
        self.browser.force_login(User.objects.create_superuser("operator", password="!"))

    def page(self, name: str, *arguments: Any) -> Node:
        """Open a page of the admin."""
        answer = self.browser.get(reverse(f"admin:{name}", args=arguments))
        assert answer.status_code == 200, (name, answer.status_code)
        return read(answer.content.decode())

    def does(self, model: str, action: str, *chosen: int) -> str:
        """Run an action of a list; return the messages that it leaves."""
        form = {"action": action, "_selected_action": chosen}
        return self.sends(reverse(f"admin:{model}_changelist"), form)

    def sends(self, where: str, form: Any) -> str:
        """Send a form; return the messages on the page that it leads to."""
        answer = self.browser.post(where, form, follow=True)
        page = read(answer.content.decode())
        assert answer.redirect_chain, page.text[:2000]
        return " ".join(node.text for node in page.all("ul", css="messagelist"))

    # --- acts -------------------------------------------------------------------------------

    def pause(self, sale: Sale, *, paused: bool) -> None:
        """Pause a sale, or resume it."""
        changed = int(sale.paused != paused)
        said = self.does("shop_sale", "pause" if paused else "resume", self.world.rows[sale].pk)
        assert said == f"{changed} sales are {'paused' if paused else 'resumed'}."
        sale.paused = paused

    def hand_over(self, order: Order) -> None:
        """Mark an order as handed over."""
        before, pk = order.status, self.world.orders[order]
        asked(order.hand_over)
        done = before in (PAID, FULFILLED)
        said = self.does("shop_order", "fulfil", pk)
        assert said == f"Order {pk} is {'handed over' if done else before}."

    def retry(self, order: Order, refund: Refund) -> None:
        """Ask again for a refund that the provider refused."""
        row = self.refunds()[order.refunds.index(refund), self.world.orders[order]]
        asked(lambda: self.model.retry(order, refund))
        assert self.does("shop_refund", "retry", row.pk) == f"Refund {row.pk} is {refund.state}."

    def restock(self, sale: Sale, units: int, *, twice: bool) -> None:
        """Add units by the form, perhaps by sending it twice."""
        where = reverse("admin:inventory_item_restock", args=[self.world.rows[sale].item_id])
        [form] = [
            f
            for f in forms(read(self.browser.get(where).content.decode()), where)
            if "total" in f.values
        ]
        values = {**form.values, "units": str(units)}
        sale.restock(units)
        assert self.sends(where, values) == f"Added {units} units: {sale.available} are available."
        if twice:
            assert self.sends(where, values).startswith("Nothing was added")

    def edit(self, sale: Sale, change: dict[str, Any]) -> None:
        """Save a sale's form as it is shown, but for some changes."""
        row = self.world.rows[sale]
        where = reverse("admin:shop_sale_change", args=[row.pk])
        page = read(self.browser.get(where).content.decode())
        [form] = [f for f in forms(page, where) if "hold" in f.values]
        assert form.values["price"] == figure(sale.price, sale.currency, grouped=False)
        values = dict(form.values)
        for name, value in change.items():
            setattr(
                sale,
                {
                    "restock_cancelled": "resells_cancelled",
                    "restock_returned": "resells_returned",
                }.get(name, name),
                value,
            )
            if isinstance(value, bool):
                values.pop(name, None)
                values |= {name: "on"} if value else {}
            elif name == "price":
                values[name] = figure(value, sale.currency, grouped=False)
            else:
                values[name] = f"00:{value // 60:02}:{value % 60:02}"
        assert "was changed successfully" in self.sends(where, values)

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
        now = self.model.now
        newest = list(reversed(self.world.rows.items()))
        assert [
            (row["product"], row["status"], row["stock"], row["sold_at"], row["limit"])
            for row in rows(self.page("shop_sale_changelist"))
        ] == [
            (
                sale.name,
                sale.status(now),
                f"{sale.available} of {sale.total}",
                self._plain(sale.price, sale.currency),
                str(sale.limit),
            )
            for sale, _ in newest
        ]
        assert [
            (row["name"], row["available"], row["reserved"], row["total"])
            for row in rows(self.page("inventory_item_changelist"))
        ] == [
            (s.name, str(s.available), str(s.total - s.available), str(s.total)) for s, _ in newest
        ]
        if self.model.orders:
            self._check_orders()
        if found := self.refunds():
            listed = rows(self.page("shop_refund_changelist"))
            wanted = []
            for (place, pk), row in found.items():
                [order] = [each for each, number in self.world.orders.items() if number == pk]
                refund = order.refunds[place]
                money = self._plain(refund.amount, order.currency)
                wanted.append((str(row.pk), str(pk), money, refund.state))
            state = {"pending": "pending", "done": "done", "failed": "failed"}
            assert sorted(
                (r["id"], r["order"], r["money"], state[r["state"]]) for r in listed
            ) == sorted(wanted)

    def _plain(self, amount: int, currency: str) -> str:
        return f"{figure(amount, currency, grouped=False)} {currency}"

    def _check_orders(self) -> None:
        listed = rows(self.page("shop_order_changelist"))
        wanted = []
        for order in reversed(self.model.orders):
            what = ", ".join(f"{line.quantity} × {line.sale.name}" for line in order.lines)
            buyer = self.world.people[order.buyer].api.user.username
            money = self._plain(order.amount, order.currency)
            wanted.append((what, buyer, money, order.status.replace("_", " ")))
        assert [(r["what"], r["buyer"], r["money"], r["status"]) for r in listed] == wanted

    def check_order(self, order: Order) -> None:
        """Compare the page of an order."""
        page = self.page("shop_order_change", self.world.orders[order])
        for name, amount in (("money", order.amount), ("back", order.refunded)):
            shown = page.one("div", css=f"field-{name}").one("div", css="readonly")
            assert shown.text == self._plain(amount, order.currency)
        lines = self._inline(page, "lines")
        assert [(r["quantity"], r["returned"], r["money"]) for r in lines] == [
            (
                str(line.quantity),
                str(line.quantity - order.live(line)),
                self._plain(line.price * line.quantity, order.currency),
            )
            for line in order.lines
        ]
        assert [(r["quantity"], r["money"]) for r in self._inline(page, "events")] == [
            (
                str(event.quantity or "-"),
                "-" if event.amount is None else self._plain(event.amount, order.currency),
            )
            for event in order.timeline
        ]
        assert sorted(
            (r["state"], r["money"], r["back"]) for r in self._inline(page, "payments")
        ) == sorted(
            (
                payment.state,
                self._plain(payment.amount, order.currency),
                self._plain(payment.owed_back, order.currency),
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

    # --- the commands -----------------------------------------------------------------------

    def audit(self, *options: str) -> dict[str, Any]:
        """Run the audit; return what it prints."""
        out = StringIO()
        with suppress(SystemExit):  # there is a problem, and it is in the output
            call_command("audit", "--json", *options, stdout=out)
        found: dict[str, Any] = json.loads(out.getvalue())
        return found

    def check_audit(self) -> None:
        """Compare the audit's books."""
        found = self.audit()
        assert found["problems"] + found["unchecked"] == []
        assert found["balanced"] is True
        for book, sale in zip(found["items"], self.world.rows, strict=True):
            held, confirmed = self._units(sale)
            assert book == {
                "item": self.world.rows[sale].item_id,
                "total": sale.total,
                "available": sale.available,
                "held": held,
                "confirmed": confirmed,
                "ledger": sale.available,
                "oversold": 0,
            }

    def _units(self, sale: Sale) -> tuple[int, int]:
        lines = [
            (order, line)
            for order in self.model.orders
            for line in order.lines
            if line.sale is sale
        ]
        confirmed = sum(o.live(line) for o, line in lines if o.status in (PAID, FULFILLED))
        return sum(o.live(line) for o, line in lines) - confirmed, confirmed
