"""The executable model of our shop, with the books that a shop keeps, in simulated time.

Time is counted in ticks of a second.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from random import Random
from typing import Any

from loadtest.checker import snapshot as s
from loadtest.shops.flash_sale.lifecycle import LIFECYCLE
from shop.tests.model import AWAITING, Line, Money, Order, Part, Refused, Sale, Shop

EPOCH = 1_700_000_000_000_000
CURRENCY = "CNY"
FIRST_TOKEN = 1_000
MODES = {"payment": ("answers", "works", "declines"), "refund": ("answers", "works")}
"""What the payment provider may do when it is asked."""
SUBJECTS = {each.name: each.subject for each in LIFECYCLE if isinstance(each, s.Mail)}
STATUS = {"invalid_quantity": 422, "idempotency_key_reused": 422, "ended": 410}
STATUS |= {"not_started": 403, "paused": 403, "not_found": 404, "busy": 503}


def clock(tick: int) -> int:
    """The database's time at a tick."""
    return EPOCH + 1_000_000 * tick


def item_of(sale: Sale) -> str:
    """The item of a sale: 7 for the first one."""
    return str(int(sale.name) + 6)


@dataclass
class Reply:
    """An answer; `about` is the sale of the line that a cart was refused for."""

    status: int
    code: str = ""
    order: str | None = None
    shown: dict[str, Any] | None = None
    about: str = ""
    figures: Mapping[str, int] = field(default_factory=dict)


class ModelShop(Shop):
    """The model as one shop with its books, whose answers are those of its API.

    Attributes:
        random: draws what the payment provider does.
        began: when the transaction of the current call began, at the latest now; orders bear it.
        created: when each order was opened.
        prefix: of the orders' ids.
    """

    prefix = "o"

    def __init__(self, sales: list[Sale], random: Random) -> None:
        super().__init__(sales)
        self.random, self.began = random, 0
        self.created: dict[Order, int] = {}
        self.movements: list[s.Movement] = []
        self.events: list[s.Event] = []
        self.ledger: list[s.Payment] = []
        self.deliveries: list[s.Delivery] = []
        self._totals = {sale: sale.total for sale in sales}
        self._live: Counter[Line] = Counter()
        self._noted: Counter[Order] = Counter()
        self._moved: set[Money] = set()
        for sale in sales:
            self._move(sale, sale.total, "restock")

    # What is asked.

    def order(self, buyer: str, key: str, wanted: Mapping[str, int], *, cart: bool) -> Reply:
        """Buy units of sales."""
        now, self.now = self.now, self.began
        try:
            sales = {sale: wanted[sale.name] for sale in self.sales if sale.name in wanted}
            order, again = self.buy(buyer, key, sales, cart=cart)
        except Refused as refused:
            return self._refusal(refused)
        finally:
            self.now = now
        self.created.setdefault(order, self.began)
        self.keep_books()
        return self.shown(order, 200 if again else 201)

    def answer(self, op: str, buyer: str, order: str, part: Part | None = None) -> Reply:
        """Read, pay (`payment`), cancel or refund an order; for others it does not exist."""
        found = self.find(order)
        if found is None or found.buyer != buyer:
            return Reply(404, "not_found")
        self.mode = self.random.choice(MODES.get(op, ("answers",)))
        try:
            match op:
                case "payment":
                    self.pay(found)
                case "cancel":
                    found.cancel(part)
                case "refund":
                    self.refund(found, part)
        except Refused as refused:
            return self._refusal(refused)
        finally:
            self.keep_books()
        return self.shown(found)

    def _refusal(self, refused: Refused) -> Reply:
        if refused.or_else is not None and self.random.random() < 0.5:
            refused = refused.or_else  # as true as the other
        about = refused.about.name if refused.about else ""
        status = STATUS.get(refused.code, 409)
        return Reply(status, refused.code, about=about, figures=refused.figures)

    def find(self, order: str) -> Order | None:
        return next((each for each in self.orders if self.id_of(each) == order), None)

    def id_of(self, order: Order) -> str:
        return f"{self.prefix}{self.orders.index(order) + 1}"

    def shown(self, order: Order, status: int = 200) -> Reply:
        """The answer that shows an order."""
        returned = sum(line.quantity - order.live(line) for line in order.lines)
        shown = {"amount": order.amount, "currency": order.currency, "status": order.status}
        shown |= {"refunded": order.refunded, "returned": returned}
        return Reply(status, "", self.id_of(order), shown)

    # What happens by itself.

    def under_way(self) -> Iterator[tuple[Order, Money]]:
        """Yield the money that the payment provider has been asked to move, or is to move back."""
        for order in self.orders:
            for each in (*order.payments, *order.refunds):
                if each.state == "pending":
                    yield order, each

    def arrive(self, order: Order, money: Money) -> None:
        """Let money reach the shop, or the buyer."""
        money.at_provider = "done"
        self.record(order, money, "done")
        self.keep_books()

    def expire(self) -> None:
        """Expire what is due."""
        for order in self.orders:
            order.expire(self.now)
        self.keep_books()

    # The books.

    def keep_books(self) -> None:
        """Write down what has happened since the last time."""
        for order in self.orders:
            for line in order.lines:
                taken = "reclaim" if line in self._live else "sell"
                back = self._live[line] - order.live(line)
                self._live[line] -= back
                if back:
                    self._move(line.sale, back, "return" if back > 0 else taken)
            for event in order.timeline[self._noted[order] :]:
                name = event.sale.name if event.sale else ""
                about = (event.amount or 0, event.quantity or 0, name)
                number, at = len(self.events) + 1, clock(self.now)
                self.events.append(s.Event(number, self.id_of(order), event.kind, at, *about))
            self._noted[order] = len(order.timeline)
            self._keep_ledger(order)
        for sale in self.sales:
            if added := sale.total - self._totals[sale]:
                self._move(sale, added, "restock" if added > 0 else "write_off")
                self._totals[sale] = sale.total
        self.follow_up()
        for order in self.orders:
            for mail in [each for each, sent in order.mails.items() if not sent]:
                self.deliveries.append(self._mail(order, mail))
                order.mails[mail] = True

    def _keep_ledger(self, order: Order) -> None:
        for money in (*order.payments, *order.refunds):
            if money.at_provider == "done" and money not in self._moved:
                self._moved.add(money)
                op = "refund" if money.payment else "capture"
                number, owner = f"m{len(self._moved)}", self.id_of(order)
                self.ledger.append(s.Payment(number, owner, op, money.amount, CURRENCY))

    def _move(self, sale: Sale, delta: int, reason: str) -> None:
        number = len(self.movements) + 1
        token = FIRST_TOKEN + number // 2
        self.movements.append(s.Movement(number, item_of(sale), delta, reason, token))

    def _mail(self, order: Order, name: str) -> s.Delivery:
        number = self.id_of(order)
        lines = (f"{each.quantity} × {_money(each.price * each.quantity)}" for each in order.lines)
        until = datetime.fromtimestamp(clock(order.pay_before) / 1_000_000, UTC)
        text = f"{', '.join(lines)}, {_money(order.amount)}; pay by {until:%Y-%m-%d %H:%M}"
        subject, to = f"Order {number}: {SUBJECTS[name]}", f"{order.buyer}@example.com"
        return s.Delivery(f"<{name}.{number}@shop>", to, subject, text, name, number)

    def items(self) -> Iterator[s.Item]:
        """Yield the items as they are now."""
        for sale in self.sales:
            held = self.held(sale, [each for each in self.orders if each.status == AWAITING])
            confirmed = self.held(sale, self.orders) - held
            mine = [each for each in self.movements if each.item == item_of(sale)]
            ledger, fence = sum(each.delta for each in mine), mine[-1].token
            figures = sale.total, sale.total - held - confirmed, held, confirmed, ledger, fence
            yield s.Item(item_of(sale), *figures)

    def rows(self) -> list[s.Row]:
        """The final snapshot."""
        rows: list[s.Row] = [*self.items(), *self.movements, *self.events]
        for sale in self.sales:
            terms = sale.limit, sale.price, CURRENCY, 1_000_000 * sale.hold
            rules = sale.resells_cancelled, sale.resells_returned
            rows.append(s.Sale(sale.name, item_of(sale), *terms, *rules))
        buyers = sorted({order.buyer for order in self.orders})
        rows += [s.Buyer(f"user {buyer}", f"{buyer}@example.com") for buyer in buyers]
        for order in self.orders:
            number = self.id_of(order)
            rows += [s.Effect(number, "confirmation", 1), s.Outbox(number, "order_opened", True)]
            for place, line in enumerate(order.lines):
                rows += self._rows_of(order, line, place)
        return rows

    def _rows_of(self, order: Order, line: Line, place: int) -> Iterable[s.Row]:
        buyer, deadline = f"user {order.buyer}", clock(order.pay_before)
        key = f"{order.key}.{place}" if place else str(order.key)
        number = str(self.orders.index(order) + 1) + (f".{place}" if place else "")
        item, worth = item_of(line.sale), line.price * line.quantity
        state = s.HELD if order.status == AWAITING else s.CONFIRMED
        # Of units that are all given back, the last ones release the reservation.
        state, back = (state, line.quantity - line.kept) if order.live(line) else (s.RELEASED, 0)
        yield s.Reservation(number, item, buyer, key, line.quantity, state, back, deadline)
        about = self.id_of(order), number, line.sale.name, item, buyer, key, line.quantity, worth
        created, paid = clock(self.created[order]), (order.amount, order.refunded)
        yield s.Order(*about, order.status, created, CURRENCY, *paid, deadline)


def _money(amount: int) -> str:
    return f"¥{amount / 100:,.2f}"
