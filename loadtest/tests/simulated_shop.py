"""A correct shop in simulated time: every call takes effect at one moment.

Time is counted in ticks of a second. A call's transaction may have begun a little before the moment
at which it takes effect, as one does that waits for a lock; orders bear the time of its beginning.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from itertools import count
from random import Random

from loadtest.checker import snapshot as s
from loadtest.shops.flash_sale.specification import LIFECYCLE
from loadtest.tests.simulated_world import (
    CURRENCY,
    Order,
    OrderLine,
    Part,
    Reply,
    Sale,
    clock,
    why_closed,
)

FIRST_TOKEN = 1_000
MAILS = {each.event: each.mail for each in LIFECYCLE if isinstance(each, s.Step) and each.mail}
SUBJECTS = {each.name: each.subject for each in LIFECYCLE if isinstance(each, s.Mail)}


Later = Callable[[int, Callable[[], None]], None]


class Shop:
    """The shop. `now` and `began` are the moment of the current call, and of its transaction.

    `later(ticks, event)` does something that the payment provider does in its own time.
    """

    def __init__(self, random: Random, sales: Sequence[Sale], later: Later) -> None:
        self.random, self.later = random, later
        self.now = self.began = 0
        self.sales = {sale.id: sale for sale in sales}
        self.orders: dict[str, Order] = {}
        self.by_key: dict[str, Order] = {}
        self.movements: list[s.Movement] = []
        self.events: list[s.Event] = []
        self.deliveries: list[s.Delivery] = []
        self.ledger: list[s.Payment] = []
        self.numbers = count(1)

    # Buying.

    def buy(self, buyer: str, key: str, wanted: Sequence[tuple[str, int]], busy: bool) -> Reply:
        """Buy one line, or the lines of a cart; nothing is written if it is `busy`."""
        if (known := self.by_key.get(key)) is not None:
            return Reply(200, "", known.id, known.shown())
        if busy:
            return Reply(503, "busy")
        lines = [(self.sales[sale], quantity) for sale, quantity in wanted]
        for sale, quantity in lines:
            if code := self._refused(sale, buyer, quantity):
                return Reply(403 if code in ("paused", "not_started") else 409, code, about=sale.id)
        return self._open(buyer, key, lines)

    def _refused(self, sale: Sale, buyer: str, quantity: int) -> str:
        remembered = sale.terms_at(self.began - self.random.randint(0, 2))
        if code := why_closed(remembered, self.began):
            return code
        if why_closed(sale.terms_at(self.now), self.began):
            return why_closed(sale.terms_at(self.now), self.now) or "paused"
        if self._had(buyer, sale) + quantity > sale.limit:
            return "limit_reached"
        return "sold_out" if sale.available < quantity else ""

    def _open(self, buyer: str, key: str, lines: Sequence[tuple[Sale, int]]) -> Reply:
        bought = []
        for place, (sale, quantity) in enumerate(lines):
            self._move(sale, -quantity, "sell")
            line_key = f"{key}.{place}" if place else key
            price = sale.terms_at(self.now).price
            bought.append(OrderLine(str(next(self.numbers)), sale, line_key, quantity, price))
        pay_before = self.began + min(sale.hold for sale, _ in lines)
        amount = sum(line.price * line.quantity for line in bought)
        order = Order(f"o{bought[0].number}", buyer, bought, self.began, pay_before, amount)
        self.orders[order.id] = self.by_key[key] = order
        self._mail(order, "confirmation")
        return Reply(201, "", order.id, order.shown())

    def _had(self, buyer: str, sale: Sale) -> int:
        return sum(
            line.live
            for order in self.orders.values()
            for line in order.lines
            if order.buyer == buyer and line.sale is sale and line.state != s.RELEASED
        )

    # What a buyer does with an order; for others it does not exist.

    def read(self, buyer: str, order: str) -> Reply:
        """Show an order."""
        found = self.orders[order]
        return self._shown(found) if found.buyer == buyer else Reply(404, "not_found")

    def pay(self, buyer: str, order: str) -> Reply:
        """Pay: captured at once, later, or declined."""
        found = self.orders[order]
        if found.buyer != buyer:
            return Reply(404, "not_found")
        if found.status in ("paid", "fulfilled") or found.paying:
            return self._shown(found)
        if found.status != "awaiting_payment":
            return Reply(409, f"order_{found.status}")
        if self.now >= found.pay_before:
            return Reply(409, "order_expired")
        if self.random.random() < 0.2:
            self._note(found, "payment_failed", found.amount)
            return Reply(409, "payment_declined")
        found.paying, amount = True, found.amount
        if self.random.random() < 0.5:
            self.later(self.random.randint(1, 40), lambda: self._captured(found, amount))
        else:
            self._captured(found, amount)
        return self._shown(found)

    def cancel(self, buyer: str, order: str, part: Part | None = None) -> Reply:
        """Cancel an unpaid order, or a part of it."""
        return self._give_up(buyer, order, part, "awaiting_payment", "cancelled")

    def refund(self, buyer: str, order: str, part: Part | None = None) -> Reply:
        """Return a paid order, or a part of it."""
        return self._give_up(buyer, order, part, "paid", "returned")

    def _give_up(self, buyer: str, order: str, part: Part | None, of: str, step: str) -> Reply:
        found = self.orders[order]
        if found.buyer != buyer:
            return Reply(404, "not_found")
        if part is None:
            done = ("cancelled",) if step == "cancelled" else ("refund_pending", "refunded")
            if found.status not in (of, *done):
                return Reply(409, f"order_{found.status}")
            if found.status == of:
                self._end(found, step)
            return self._shown(found)
        if part.key in found.parts:
            same = found.parts[part.key] == (step, part)
            return self._shown(found) if same else Reply(422, "idempotency_key_reused")
        line = next((each for each in found.lines if each.sale.id == part.sale), None)
        if line is None or line.state == s.RELEASED or line.live < part.quantity:
            return Reply(422, "invalid_quantity")
        if found.status != of:
            return Reply(409, f"order_{found.status}")
        self._give_up_part(found, line, part, step)
        return self._shown(found)

    def _give_up_part(self, order: Order, line: OrderLine, part: Part, step: str) -> None:
        order.parts[part.key] = (step, part)
        line.in_parts += part.quantity
        worth = line.price * part.quantity
        if step == "cancelled":
            order.amount -= worth
            line.cancelled_in_parts += part.quantity
        self._note(order, f"part_{step}", worth, part.quantity, part.sale)
        self._back(line, part.quantity, step)
        if part.quantity == line.live:
            line.state = s.RELEASED
        else:
            line.returned += part.quantity
        if all(each.state == s.RELEASED for each in order.lines):
            self._end(order, step)
        elif step == "returned":
            self._owe(order, worth)

    def _shown(self, order: Order) -> Reply:
        return Reply(200, "", order.id, order.shown())

    # What happens by itself.

    def expire(self) -> None:
        """Expire what is due."""
        for order in self.orders.values():
            if order.status == "awaiting_payment" and self.now >= order.pay_before:
                self._end(order, "expired")

    def fulfil(self) -> None:
        """Hand over a paid order."""
        if paid := [each for each in self.orders.values() if each.status == "paid"]:
            order = self.random.choice(paid)
            order.status = "fulfilled"
            self._note(order, "fulfilled")

    def restock(self, sale: Sale, quantity: int) -> Reply:
        """Add units."""
        self._move(sale, quantity, "restock")
        return Reply(200)

    def _captured(self, order: Order, amount: int) -> None:
        order.paying = False
        number = f"c{len(self.ledger)}"
        self.ledger.append(s.Payment(number, order.id, "capture", amount, CURRENCY))
        order.captured = amount
        if order.status == "awaiting_payment":
            self._step(order, "paid", "paid")
            for line in order.lines:
                line.state = s.CONFIRMED if line.state == s.HELD else line.state
        elif order.status != "expired" or not self._take_again(order):
            self._owe(order, amount, note=True)
            return
        if amount > order.amount:
            self._owe(order, amount - order.amount, note=True)

    def _take_again(self, order: Order) -> bool:
        wanted = [line for line in order.lines if line.cancelled_in_parts < line.quantity]
        for line in wanted:
            had = self._had(order.buyer, line.sale)
            if line.sale.available < line.live or had + line.live > line.sale.limit:
                return False
        for line in wanted:
            line.state = s.CONFIRMED
            self._move(line.sale, -line.live, "reclaim")
        self._step(order, "paid_late", "paid")
        return True

    def _end(self, order: Order, step: str) -> None:
        for line in order.lines:
            if line.state != s.RELEASED:
                self._back(line, line.live, step)
                line.state = s.RELEASED
        self._step(order, step, "refund_pending" if step == "returned" else step)
        if step == "returned":
            self._owe(order, order.captured - order.owed)
            self._finish(order)

    def _owe(self, order: Order, amount: int, *, note: bool = False) -> None:
        if note:
            self._note(order, "money_owed", amount)
        order.owed += amount
        if amount:
            self.later(self.random.randint(0, 8), lambda: self._money_back(order, amount))

    def _money_back(self, order: Order, amount: int) -> None:
        number = f"r{len(self.ledger)}"
        self.ledger.append(s.Payment(number, order.id, "refund", amount, CURRENCY))
        order.refunded += amount
        self._note(order, "money_back", amount)
        self._finish(order)

    def _finish(self, order: Order) -> None:
        if order.status == "refund_pending" and order.refunded == order.owed:
            self._step(order, "refunded", "refunded")

    def _step(self, order: Order, event: str, status: str) -> None:
        order.status = status
        self._note(order, event)

    def _note(
        self, order: Order, name: str, amount: int = 0, quantity: int = 0, sale: str = ""
    ) -> None:
        number = len(self.events) + 1
        at = clock(self.now)
        self.events.append(s.Event(number, order.id, name, at, amount, quantity, sale))
        if name in MAILS:
            self._mail(order, MAILS[name])

    def _mail(self, order: Order, name: str) -> None:
        message = f"<{name}.{order.id}@shop>"
        if message not in [each.message for each in self.deliveries]:
            lines = (
                f"{each.quantity} × {_money(each.price * each.quantity)}" for each in order.lines
            )
            until = datetime.fromtimestamp(clock(order.pay_before) / 1_000_000, UTC)
            text = f"{', '.join(lines)}, {_money(order.amount)}; pay by {until:%Y-%m-%d %H:%M}"
            subject = f"Order {order.id}: {SUBJECTS[name]}"
            to = f"{order.buyer}@example.com"
            self.deliveries.append(s.Delivery(message, to, subject, text, name, order.id))

    def _back(self, line: OrderLine, quantity: int, step: str) -> None:
        self._move(line.sale, quantity, "return")
        again = {
            "cancelled": line.sale.restock_cancelled,
            "returned": line.sale.restock_returned,
        }
        if not again.get(step, True):
            self._move(line.sale, -quantity, "write_off")

    def _move(self, sale: Sale, delta: int, reason: str) -> None:
        number = len(self.movements) + 1
        token = FIRST_TOKEN + number // 2
        self.movements.append(s.Movement(number, sale.item, delta, reason, token))
        sale.available += delta
        if reason in ("restock", "write_off"):
            sale.total += delta


def _money(amount: int) -> str:
    return f"¥{amount / 100:,.2f}"
