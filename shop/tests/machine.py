"""A state machine that plays a shop and its model at once: buyers, provider, operators, the clock.

Hypothesis chooses the steps. Each step acts on the shop (the API through its handler, services,
background tasks, webhooks) and on the model (`shop/tests/model.py`), and compares the answers.
After each step the database must hold exactly what the model holds.

Only what the API and the rows say is compared. Pages, mails' texts, the admin and the currency of
the shop are not, so a change of those needs no change here. Time is counted in whole seconds of a
clock that stands still (`shop/tests/still_clock.py`), so that a deadline is reached to the second.
"""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timedelta
from io import StringIO
from itertools import count
from typing import Any, cast
from uuid import UUID, uuid4

from django.conf import settings
from django.core import mail
from django.core.cache import cache
from django.core.management import call_command
from django.db.models import Sum
from django.db.models.functions import Now
from django.test import Client
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)

from inventory import services
from inventory.hooks import AFTER_COMMIT, BEFORE_COMMIT, LOCKED, hooks
from inventory.models import BuyerQuota, Item, StockMovement
from shop import orders, payments
from shop.background import tasks
from shop.catalogue.models import Sale as SaleRow
from shop.catalogue.sale_cache import availability_cache, sale_cache, stock_cache
from shop.catalogue.sales import database_time, open_sale
from shop.conftest import Buyer
from shop.money import default_currency
from shop.orders import transitions
from shop.orders.models import Order as OrderRow
from shop.orders.totals import Basket, Fee
from shop.orders.transitions import Act
from shop.payments.models import Discrepancy
from shop.payments.models import Payment as PaymentRow
from shop.payments.models import Refund as RefundRow
from shop.payments.provider import (
    LedgerLine,
    PaymentDeclined,
    PaymentUnknown,
    ProviderRefund,
    provider,
)
from shop.refusals import Refusal
from shop.staff import orders as staff
from shop.tests import still_clock
from shop.tests.model import AWAITING, FREE_FROM, Money, Order, Part, Refused, Sale, Shop
from shop.tests.provider import FakeProvider
from shop.tests.quick import delete_all

STATUS = {
    "not_started": 403,
    "paused": 403,
    "not_found": 404,
    "ended": 410,
    "invalid_quantity": 422,
    "invalid_cart": 422,
    "idempotency_key_reused": 422,
    "outcome_unknown": 503,
}
"""HTTP statuses of refusals; all others are conflicts (409)."""

FIGURES = ("available", "left", "may_come_back")
"""What a refusal says of the units that are left."""

FAILPOINTS = (LOCKED, BEFORE_COMMIT, AFTER_COMMIT)
FAR = 100_000
CAPTURED = {"done": "captured"}
"""What the shop calls a payment that the model calls done."""

FEE = 490
"""What the shipping of a small order costs, in shops with fees."""

ACT = Act("olga", "the buyer has called")

BUYERS = ("Ann", "Bob")
WHO = st.sampled_from(BUYERS)
NUMBER = st.integers(0, 11)
UNITS = st.sampled_from([1, 1, 1, 2, 2, 3])


class ProcessEnds(BaseException):
    """The process ends here."""


@contextmanager
def failing(point: str, error: BaseException) -> Iterator[None]:
    """Raise an error where a purchase reaches a failpoint."""

    def fail(name: str) -> None:
        if name == point:
            raise error

    before, hooks.failpoint = hooks.failpoint, fail
    try:
        yield
    finally:
        hooks.failpoint = before


class Provider(FakeProvider):
    """A payment provider in the mode that the machine chooses."""

    def __init__(self) -> None:
        super().__init__()
        self.change_to("answers")

    def change_to(self, mode: str, error: type[BaseException] = PaymentUnknown) -> None:
        """Change the mode.

        Args:
            mode: `answers` at once; `asks` the buyer first; `works`, and reports the end later;
                `declines`; is `silent`, and does nothing; is `mute`: does what it is asked, and its
                answer is lost.
            error: raised where no answer comes.
        """
        self.slow, self.declines = mode == "works", mode == "declines"
        self.asks = mode == "asks"
        self.before = self.after = lambda call: None

        def lose_answer(call: str) -> None:
            if mode == "silent" or call in ("capture", "refund"):
                raise error(call)

        if mode == "silent":
            self.before = lose_answer
        elif mode == "mute":
            self.after = lose_answer

    def ledger(self) -> Iterator[LedgerLine]:
        """Yield the money that moved."""
        self.before("ledger")
        for intent in self.intents.values():
            about = (intent.order, intent.id)
            if intent.status == "captured":
                yield LedgerLine(1, *about, "capture", intent.amount, intent.currency)
            if back := self.back[intent.id]:
                yield LedgerLine(2, *about, "refund", back, intent.currency)

    def end_payment(self, intent: str, status: str) -> dict[str, Any]:
        """Let a payment end; return the data of the event."""
        if status == "captured":
            self._take(self.intents[intent])
        else:
            self.intents[intent] = replace(self.intents[intent], status=status)  # type: ignore[arg-type]
        return asdict(self.intents[intent])

    def end_refund(self, number: str, status: str) -> dict[str, Any]:
        """Let a refund end; return the data of the event."""
        refund = self.on_the_way.pop(number)
        if status == "succeeded":
            return asdict(self._give(refund))
        return asdict(self._now(replace(refund, status=status)))  # type: ignore[arg-type]

    def _refund(self, pk: str, amount: int) -> ProviderRefund:
        if self.declines:
            raise PaymentDeclined("refused")
        return super()._refund(pk, amount)


PROVIDER = f"{Provider.__module__}.{Provider.__qualname__}"


def shipping(basket: Basket) -> list[Fee]:
    """Return the fee of a small order."""
    return [Fee("Shipping", FEE)] if basket.quantity < FREE_FROM else []


@dataclass
class Event:
    """An event that the provider reports: its number, type and data.

    Attributes:
        order: that it is about.
        money: the payment or refund that it is about.
        outcome: of that, as the model calls it.
    """

    pk: str
    kind: str
    data: dict[str, Any]
    order: Order
    money: Money
    outcome: str


def key_of(number: int) -> str:
    """Return an idempotency key by its number."""
    return str(UUID(int=number))


def outcome_of(step: Callable[[], Any]) -> Any:
    """Return what a step of the model returns, or its refusal."""
    try:
        return step()
    except Refused as refused:
        return refused


class ShopMachine(RuleBasedStateMachine):
    """Two buyers, operators, the provider and the clock in a shop of three sales.

    The numbers that rules draw choose an order, a sale or an event; the latest ones first.
    """

    # --- the beginning and the end -------------------------------------------------------------

    @initialize(
        stock=st.integers(2, 6),
        limit=st.integers(2, 4),
        prices=st.sampled_from([(1_250, 1_990), (99_900, 0), (123_456, 1_999)]),
        resells=st.booleans(),
        hold=st.sampled_from([30, 90, 900, 7_260]),
        opens=st.sampled_from([-5, -5, 120]),
        takes_payments=st.sampled_from([True] * 7 + [False]),
        has_fees=st.booleans(),
        bought=st.integers(0, 3),
    )
    def open(
        self,
        stock: int = 4,
        limit: int = 3,
        prices: tuple[int, int] = (1_250, 1_990),
        resells: bool = True,
        hold: int = 90,
        opens: int = -5,
        takes_payments: bool = True,
        has_fees: bool = False,
        bought: int = 0,
    ) -> None:
        """Open three sales: two in the shop's own currency and one in another.

        Args:
            stock: units of the first sale.
            limit: units per buyer in the first sale.
            prices: of the first and the second sale.
            resells: whether units of cancelled orders are sold again, and not those of returned
                orders; or the other way round.
            hold: seconds to pay for an order of the first sale.
            opens: second in which the third sale opens; the second one opens 120 s earlier.
            takes_payments: whether the shop takes payments.
            has_fees: whether small orders cost shipping.
            bought: units that Ann buys at once in the first sale.
        """
        delete_all()
        own = default_currency()
        other = "JPY" if own != "JPY" else "CNY"
        rules = {"resells_cancelled": resells, "resells_returned": not resells}
        self.sales = [
            Sale("first", stock, prices[0], own, limit, -10, FAR, hold, **rules),
            Sale("second", 5, prices[1], own, 3, max(opens - 120, 0), 400, 60),
            Sale("third", 4, 1_500, other, 3, opens, FAR, 900, **rules),
        ]
        settings.PAYMENT_PROVIDER = PROVIDER
        provider.cache_clear()
        self.provider = cast(Provider, provider())
        settings.PAYMENT_PROVIDER = PROVIDER if takes_payments else ""
        settings.FEES = f"{__name__}.shipping" if has_fees else ""
        self.model = Shop(self.sales, payments=takes_payments, fee=FEE if has_fees else 0)
        self.epoch = still_clock.begin()
        self.rows = {sale: self._open(sale) for sale in self.sales}
        self.stocked = {sale: sale.total for sale in self.sales}
        self.buyers = {name: Buyer(f"{name.lower()}-{uuid4().hex[:8]}") for name in BUYERS}
        for buyer in self.buyers.values():
            # Mails go to confirmed addresses only.
            buyer.user.email = f"{buyer.user.username}@example.org"
            buyer.user.save()
        self.orders: dict[Order, int] = {}
        self.purchases: dict[str, list[tuple[int, dict[Sale, int], bool]]] = {
            name: [] for name in BUYERS
        }
        self.numbers = count(1)
        self.sent: list[str] = []  # mails that went out before a crash
        self.events: list[Event] = []
        self.accepted: set[str] = set()  # the numbers of events that the shop has taken
        self.forget()
        if bought:
            self.buy("Ann", 0, bought)

    def _open(self, sale: Sale) -> SaleRow:
        row = open_sale(
            stock=sale.total,
            price=sale.price,
            limit=sale.limit,
            currency=sale.currency,
            hold=timedelta(seconds=sale.hold),
            action_hold=timedelta(seconds=sale.action_hold),
            restock_cancelled=sale.resells_cancelled,
            restock_returned=sale.resells_returned,
        )
        SaleRow.objects.filter(pk=row.pk).update(
            starts_at=self.at(sale.opens), ends_at=self.at(sale.closes)
        )
        return row

    def teardown(self) -> None:
        """Let everything that waits happen; then the books must balance, and nothing is pending."""
        if not hasattr(self, "model"):
            return
        self.provider.change_to("answers")
        self.model.mode = "answers"
        while asked := self.asked():
            self.answer_at_provider(*asked[0], "pays")
        while working := self.working():
            self.end_at_provider(*working[0], end="captured")
        for event in self.events:
            self.deliver(event, event.pk)
        self.expire_orders()
        self.settle_payments()
        self.settle_payments()
        self.follow_up()
        self.send_mails()
        self.check_rows()
        assert not self.refunds("pending")
        for order in self.model.orders:
            self.look_at_order(order.buyer, order)
        for sale in self.sales:
            self.look_at_sale(sale)
        self.audit("--repair")
        # Where the provider contradicted itself, an operator has decided.
        Discrepancy.objects.update(closed=Now())
        audit = self.audit()
        assert (audit["balanced"], audit["problems"], audit["unchecked"]) == (True, [], [])

    # --- time and memory -----------------------------------------------------------------------

    def at(self, second: int) -> datetime:
        """Return a second of the machine's clock as the database's time."""
        return self.epoch + timedelta(seconds=second)

    def second(self, when: str | datetime) -> int:
        """Return the first second that is not before a time of the database."""
        moment = datetime.fromisoformat(when) if isinstance(when, str) else when
        return -int((self.epoch - moment).total_seconds() // 1)

    def forget(self) -> None:
        """Forget what a process may remember of the shop for a second."""
        for remembered in (sale_cache, stock_cache, availability_cache):
            remembered.cache_clear()
        cache.clear()

    def pass_time(self, seconds: int) -> None:
        """Let seconds pass."""
        still_clock.advance(seconds)
        self.model.now += seconds

    @rule(towards=NUMBER, edge=st.integers(-1, 1))
    def time_passes(self, towards: int, edge: int) -> None:
        """Wait a while, or until the second before, of or after the next deadline or opening."""
        now = self.model.now
        moments = {sale.opens for sale in self.sales} | {sale.closes for sale in self.sales}
        moments |= {order.pay_before + later for order in self.model.orders for later in (0, 60)}
        ahead = sorted(moment + edge - now for moment in moments if moment + edge > now)
        waits = [1, 61, 301, 901, *ahead[:8]]
        self.pass_time(min(waits[-1 - towards % len(waits)], 1_000))

    # --- buyers --------------------------------------------------------------------------------

    @rule(who=WHO, sale=NUMBER, units=st.sampled_from([1] * 6 + [2] * 3 + [3, 4, 0, 1001]))
    def buy(self, who: str, sale: int, units: int = 1) -> None:
        """Buy in one sale."""
        self.buy_under_a_new_key(who, {self.sales[sale % 3]: units}, cart=False)

    @rule(who=WHO, first=UNITS, second=UNITS, third=st.integers(0, 3))
    def buy_cart(self, who: str, first: int, second: int, third: int = 0) -> None:
        """Buy a cart; one with the third sale has two currencies."""
        wanted = {self.sales[0]: first, self.sales[1]: second}
        if third == 3:
            wanted[self.sales[2]] = 1
        self.buy_under_a_new_key(who, wanted, cart=True)

    @precondition(lambda self: any(self.purchases.values()))
    @rule(who=WHO, more=st.booleans())
    def repeat_purchase(self, who: str, more: bool = False) -> None:
        """Send the last purchase once more under its key: the same, or one with a unit more."""
        if not self.purchases[who]:
            return
        key, wanted, cart = self.purchases[who][-1]
        if more and cart:
            return  # may be refused for its lines before its key is looked at
        if more:
            wanted = {sale: units + 1 for sale, units in wanted.items()}
        # The order of the lines does not matter.
        self.buy_by_api(who, key, dict(reversed(wanted.items())), cart=cart)

    @rule(point=st.sampled_from(FAILPOINTS), who=WHO, sale=NUMBER, cart=st.booleans())
    def process_ends_during_purchase(self, point: str, who: str, sale: int, cart: bool) -> None:
        """End the process at a failpoint: the purchase was made or not, and a repeat tells."""
        with failing(point, ProcessEnds()):
            self.buy_under_a_new_key(who, {self.sales[sale % 3]: 1}, cart=cart)
        self.forget()
        self.repeat_purchase(who)

    def buy_under_a_new_key(self, who: str, wanted: dict[Sale, int], *, cart: bool) -> None:
        """Buy; both buyers choose the same keys."""
        key = len(self.purchases[who]) + 1
        self.purchases[who].append((key, wanted, cart))
        self.buy_by_api(who, key, wanted, cart=cart)

    def buy_by_api(self, who: str, number: int, wanted: Mapping[Sale, int], *, cart: bool) -> None:
        """Buy by a call, under the key with a number; one line may be sent as a cart, too."""
        self.forget()
        key = key_of(number)
        lines = [{"sale": self.rows[sale].pk, "quantity": n} for sale, n in wanted.items()]
        path, body = "orders", cast(Any, {"lines": lines})
        if not cart:
            path = f"sales/{lines[0]['sale']}/orders"
            body = {"quantity": lines[0]["quantity"]}
        try:
            answer = self.buyers[who].call("POST", path, body, idempotency_key=key)
        except ProcessEnds:
            self.learn_outcome(who, key, wanted, cart=cart)
            return
        result = outcome_of(lambda: self.model.buy(who, key, wanted, cart=cart))
        if isinstance(result, Refused):
            self.check_refusal(result, answer, cart=cart)
            return
        order, repeated = result
        assert answer.status_code == (200 if repeated else 201), answer.content
        self.learn_number(order, answer.json()["id"])
        self.check_document(order, answer.json())

    def learn_outcome(self, who: str, key: str, wanted: Mapping[Sale, int], *, cart: bool) -> None:
        """Let the model do what the shop did: all of a purchase, or nothing."""
        known = [self.orders[order] for order in self.model.of(who)]
        bought = OrderRow.objects.filter(buyer=self.buyers[who].user).exclude(pk__in=known)
        if (row := bought.first()) is not None:
            order, _ = self.model.buy(who, key, wanted, cart=cart)
            self.learn_number(order, row.pk)

    def learn_number(self, order: Order, pk: int) -> None:
        """Learn the number of an order, or check that it has not changed."""
        assert pk not in self.orders.values() or self.orders.get(order) == pk, "another's order"
        assert self.orders.setdefault(order, pk) == pk, "a second order"

    @precondition(lambda self: self.model.orders)
    @rule(
        order=NUMBER,
        what=st.sampled_from(["payment", "payment", "payment", "cancel", "refund", "refund"]),
        stranger=st.sampled_from([False] * 9 + [True]),
    )
    def change_order(self, what: str, order: int = 0, stranger: bool = False) -> None:
        """Pay, cancel or return a whole order; rarely another buyer's."""
        chosen = self.order(order)
        others = [name for name in BUYERS if name != chosen.buyer]
        self.change_by_api(others[0] if stranger else chosen.buyer, chosen, what, None)

    @precondition(lambda self: self.model.orders)
    @rule(
        order=NUMBER,
        what=st.sampled_from(["cancel", "refund"]),
        units=UNITS,
        line=NUMBER,
        key=st.integers(0, 7),
    )
    def change_part(
        self, what: str, key: int, units: int = 1, line: int = 0, order: int = 0
    ) -> None:
        """Cancel or return a part of an order under one of a few keys, or a new one (from 3).

        The line is one of the order's, from 9 on any sale's, and 11 names none.
        """
        chosen = self.order(order)
        sale: Sale | None = chosen.lines[line % len(chosen.lines)].sale
        if line >= 9:
            sale = None if line == 11 else self.sales[line % 3]
        part = Part(units, key_of(10**6 + (key if key < 3 else 10 + next(self.numbers))), sale)
        self.change_by_api(chosen.buyer, chosen, what, part)

    def change_by_api(self, who: str, order: Order, what: str, part: Part | None) -> None:
        """Pay, cancel or return an order or a part of it by a call."""
        self.forget()
        body: dict[str, Any] | None = None
        headers = {}
        if part is not None:
            body = {"quantity": part.units}
            if part.sale is not None:
                body["sale"] = self.rows[part.sale].pk
            headers["idempotency_key"] = str(part.key)
        path = f"orders/{self.orders[order]}/{what}"

        def change() -> None:
            if order.buyer != who:
                raise Refused("not_found")
            if what == "payment":
                self.model.pay(order)
            elif what == "refund":
                self.model.refund(order, part)
            else:
                order.cancel(part)

        try:
            answer = self.buyers[who].call("POST", path, body, **headers)
        except ProcessEnds:
            with suppress(Refused):
                change()
            return
        result = outcome_of(change)
        if isinstance(result, Refused):
            self.check_refusal(result, answer, cart=False)
        else:
            assert answer.status_code == 200, answer.content
            self.check_document(order, answer.json())

    @precondition(lambda self: self.model.orders)
    @rule(who=WHO, order=NUMBER, sale=NUMBER)
    def look(self, who: str, order: int, sale: int) -> None:
        """Look at an order, which others cannot, and at a sale."""
        self.forget()
        self.look_at_order(who, self.order(order))
        self.look_at_sale(self.sales[sale % 3])

    def look_at_order(self, who: str, order: Order) -> None:
        """Look at an order by a call; another buyer's is not found."""
        answer = self.buyers[who].get(f"orders/{self.orders[order]}")
        if order.buyer == who:
            self.check_document(order, answer.json())
        else:
            assert answer.json()["code"] == "not_found"

    def look_at_sale(self, sale: Sale) -> None:
        """Look at a sale by a call, for which nobody needs an account."""
        self.forget()
        row = self.rows[sale]
        found = self.buyers["Ann"].get(f"sales/{row.pk}", authorization="").json()
        status = self.model.status(sale)
        expected = {
            "id": row.pk,
            "item": row.item_id,
            "limit": sale.limit,
            "status": status,
            "price": {"amount": sale.price, "currency": sale.currency},
            "available": self.model.available(sale),
            "may_come_back": status == "sold_out" and self.model.may_come_back(sale),
        }
        assert {name: found[name] for name in expected} == expected
        times = [self.second(found[f"{name}_at"]) for name in ("starts", "ends")]
        assert [*times, self.second(found["server_time"])] == [
            sale.opens,
            sale.closes,
            self.model.now,
        ]

    def check_refusal(self, expected: Refused, answer: Any, *, cart: bool) -> None:
        """Compare a refusal: its code, its status, and what it says of the units that are left."""
        problem = answer.json()
        code = problem.get("code", f"no refusal: {answer.status_code}")
        if expected.or_else is not None and expected.or_else.code == code:
            expected = expected.or_else
        assert code == expected.code, (code, expected.code)
        assert answer.status_code == problem["status"] == STATUS.get(code, 409)
        assert ("Retry-After" in answer.headers) == (answer.status_code == 503)
        about = expected.about if cart else None
        assert problem.get("sale") == (about and self.rows[about].pk)
        for name in FIGURES:
            assert problem.get(name, 0) == expected.figures.get(name, 0), name

    def check_document(self, order: Order, document: dict[str, Any]) -> None:
        """Compare an order as the API shows it; fields that the model does not know are free."""

        def money(amount: int) -> dict[str, Any]:
            return {"amount": amount, "currency": order.currency}

        lines = [
            {
                "sale": self.rows[line.sale].pk,
                "quantity": line.quantity,
                "returned": line.quantity - order.live(line),
                "amount": money(line.price * line.quantity),
            }
            for line in order.lines
        ]
        expected = {
            "id": self.orders[order],
            "sale": lines[0]["sale"] if len(lines) == 1 else None,
            "quantity": sum(line.quantity for line in order.lines),
            "amount": money(order.amount),
            "status": order.status,
            "payment": order.payment(),
            "refunded": money(order.refunded),
            "lines": lines,
        }
        fees = [money(order.opened_fee)] if order.opened_fee else []
        assert [fee["amount"] for fee in document["fees"]] == fees
        for line in document["lines"]:  # their tax is tested where it is worked out
            del line["tax"], line["tax_rate"]
        assert {name: document[name] for name in expected} == expected
        assert self.second(document["pay_before"]) == order.pay_before
        assert self.second(document["created"]) <= self.model.now

    # --- the payment provider ------------------------------------------------------------------

    @precondition(lambda self: self.model.payments)
    @rule(
        mode=st.sampled_from(
            [*["answers"] * 3, *["asks"] * 2, *["works"] * 2, "declines", "silent", "mute"]
        ),
        process_ends=st.booleans(),
    )
    def change_provider(self, mode: str, process_ends: bool = False) -> None:
        """Change the provider's mode; where no answer comes, our process may end instead."""
        self.provider.change_to(mode, ProcessEnds if process_ends else PaymentUnknown)
        self.model.mode = mode

    @precondition(lambda self: self.asked())
    @rule(which=NUMBER, answer=st.sampled_from(["pays", "pays", "declines"]), heard=st.booleans())
    def buyer_answers(self, which: int = 0, answer: str = "pays", heard: bool = True) -> None:
        """Let a buyer do what the provider asked for; its event arrives at once, or waits."""
        asked = self.asked()
        event = self.answer_at_provider(*asked[which % len(asked)], answer)
        if heard:
            self.deliver(event, event.pk)

    def answer_at_provider(self, order: Order, money: Money, answer: str) -> Event:
        """Let the buyer authorise a payment, or decline it; return the event, which waits."""
        intent = self.payment_row(order, money).intent
        if answer == "pays":
            ended, money.at_provider = self.provider.buyer_pays(intent), "authorised"
        else:
            ended, money.at_provider = self.provider.buyer_declines(intent), "failed"
        kind, pk = f"payment_intent.{ended.status}", f"evt_{next(self.numbers)}"
        self.events.append(Event(pk, kind, asdict(ended), order, money, money.at_provider))
        return self.events[-1]

    @precondition(lambda self: self.working())
    @rule(which=NUMBER, end=st.sampled_from(["captured", "captured", "failed", "cancelled"]))
    def provider_ends(self, which: int = 0, end: str = "captured") -> None:
        """Let the provider end what it works on; its event waits."""
        working = self.working()
        self.end_at_provider(*working[which % len(working)], end=end)

    def end_at_provider(self, order: Order, money: Money, *, end: str) -> Event:
        """Let a payment or a refund end at the provider; return the event, which waits."""
        money.at_provider = "done" if end == "captured" else end
        if money.payment is None:
            kind = f"payment_intent.{end}"
            data = self.provider.end_payment(self.payment_row(order, money).intent, end)
        else:
            status = "succeeded" if end == "captured" else "failed"
            kind = f"refund.{status}"
            data = self.provider.end_refund(self.refund_row(order, money).number, status)
            money.at_provider = "done" if end == "captured" else "declined"
        pk = f"evt_{next(self.numbers)}"
        self.events.append(Event(pk, kind, data, order, money, money.at_provider))
        return self.events[-1]

    @precondition(lambda self: self.events)
    @rule(which=NUMBER, other_number=st.booleans())
    def event_arrives(self, which: int = 0, other_number: bool = False) -> None:
        """Deliver an event, in any order and any number of times, perhaps under another number."""
        event = self.events[which % len(self.events)]
        self.deliver(event, f"evt_{next(self.numbers)}" if other_number else event.pk)

    @precondition(lambda self: self.model.payments and self.payable())
    @rule(
        part=st.booleans(),
        meanwhile=st.sampled_from(["nothing", "cancelled", "late", "expired"]),
        end=st.sampled_from(["captured", "captured", "captured", "failed", "cancelled"]),
    )
    def pay_slowly(self, part: bool, meanwhile: str, end: str = "captured") -> None:
        """Pay the latest unpaid order; the order changes before the event of the end arrives."""
        order = self.payable()[-1]
        self.change_provider("works")
        self.change_by_api(order.buyer, order, "payment", None)
        if part:
            one = Part(1, key_of(10**7 + next(self.numbers)), order.lines[-1].sale)
            self.change_by_api(order.buyer, order, "cancel", one)
        if meanwhile == "cancelled":
            self.change_by_api(order.buyer, order, "cancel", None)
        elif meanwhile != "nothing":
            self.pass_time(max(0, order.pay_before - self.model.now))
        if meanwhile == "expired":
            self.expire_orders()
        for payment in order.payments:
            if payment.at_provider == "working":
                event = self.end_at_provider(order, payment, end=end)
                self.deliver(event, event.pk)

    @precondition(lambda self: self.decided())
    @rule(which=NUMBER)
    def provider_contradicts_itself(self, which: int = 0) -> None:
        """Report that money did not move that had moved, or that it moved after it had failed.

        A payment was really taken then; a refund that failed is requested again.
        """
        order, money = self.decided()[which % len(self.decided())]
        done = money.at_provider == "done"
        if money.payment is not None:
            row = self.refund_row(order, money)
            if not row.number or done:
                # It was refused at once; or it fails after all, which is tested on its own.
                return
            status, outcome = ("failed", "declined") if done else ("succeeded", "done")
            kind = f"refund.{status}"
            data = {
                "id": row.number,
                "intent": row.payment.intent,
                "amount": row.amount,
                "status": status,
            }
        else:
            intent = self.payment_row(order, money).intent
            status, outcome = ("failed", "failed") if done else ("captured", "done")
            kind = f"payment_intent.{status}"
            if done:
                true = asdict(self.provider.intents[intent])
                pk = f"evt_{next(self.numbers)}"
                self.events.append(Event(pk, "payment_intent.captured", true, order, money, "done"))
                data = true | {"status": status}
            else:
                data = self.provider.end_payment(intent, status)
                money.at_provider = "done"
        pk = f"evt_{next(self.numbers)}"
        self.deliver(Event(pk, kind, data, order, money, outcome), pk)

    def deliver(self, event: Event, pk: str) -> None:
        """Deliver an event under a number; one of a refund that was requested again is old."""
        old = early = False
        is_known = pk in self.accepted  # an event takes effect once
        if event.money.payment is not None:
            row = self.refund_row(event.order, event.money)
            old = row.number != event.data["id"]
            # Until the shop knows the number of its request, the event may be about that.
            early = old and (row.state, row.number) == ("pending", "") and pk not in self.accepted
        assert self.post_event(event, pk) == (503 if early else 200)
        if not early:
            self.accepted.add(pk)
        if event.outcome == "authorised":
            # Also when it comes again: what was authorised is asked for until there is an answer.
            self.model.hear_of_authorisation(event.order, event.money, is_known=is_known)
        elif not old and not is_known:
            self.model.record(event.order, event.money, event.outcome)

    def post_event(self, event: Event, pk: str) -> int:
        """Call the webhook with an event; return the status."""
        body = json.dumps({"id": pk, "type": event.kind, "data": event.data}).encode()
        at = str(int(database_time().timestamp())).encode()
        secret = settings.PSP_WEBHOOK_SECRET.encode()
        signature = hmac.new(secret, at + b"." + body, hashlib.sha256).hexdigest()
        try:
            answer = Client().post(
                "/api/v1/webhooks/psp",
                body,
                content_type="application/json",
                headers={"PSP-Signature": f"t={at.decode()},v1={signature}"},
            )
        except ProcessEnds:
            return 200  # after the event's effect, while the provider was asked for the money
        return answer.status_code

    # --- operators, through services -----------------------------------------------------------

    @rule(
        sale=NUMBER,
        what=st.sampled_from(
            ["pause", "resume", "restock", "write_off", "price", "hold", "rules", "limit", "closes"]
        ),
        units=st.integers(1, 3),
    )
    def change_sale(self, sale: int, what: str, units: int = 1) -> None:
        """Change the terms of a sale or its stock."""
        chosen = self.sales[sale % 3]
        row = SaleRow.objects.filter(pk=self.rows[chosen].pk)
        item = self.rows[chosen].item_id
        if what in ("pause", "resume"):
            chosen.paused = what == "pause"
            row.update(paused=chosen.paused)
        elif what == "restock":
            chosen.total += units
            self.stocked[chosen] += units
            services.restock(item, units)
        elif what == "write_off":
            gone = min(units, self.model.available(chosen))
            if gone:
                chosen.total -= gone
                services.write_off(item, gone)
        elif what == "price":
            chosen.price = 1_000 * units + 7
            row.update(price=chosen.price)
        elif what == "hold":
            chosen.hold = 45 * units
            row.update(hold=timedelta(seconds=chosen.hold))
        elif what == "limit":
            chosen.limit = units
            row.update(limit=units)
        elif what == "closes":
            chosen.closes = max(self.model.now, chosen.opens) + 40 * units
            row.update(ends_at=self.at(chosen.closes))
        else:
            chosen.resells_cancelled, chosen.resells_returned = units > 1, units < 3
            row.update(restock_cancelled=units > 1, restock_returned=units < 3)

    @precondition(lambda self: self.model.orders)
    @rule(order=NUMBER)
    def hand_over(self, order: int = 0) -> None:
        """Hand an order over, which must be paid."""
        chosen = self.order(order)
        before = chosen.status
        outcome_of(chosen.hand_over)
        left = transitions.fulfil([self.orders[chosen]])
        assert left == ({} if before == "paid" else {self.orders[chosen]: chosen.status})

    @precondition(lambda self: self.model.orders)
    @rule(
        order=NUMBER,
        what=st.sampled_from(["cancel", "refund", "part", "goodwill", "hold", "hold"]),
        units=UNITS,
        again=st.sampled_from([False] * 4 + [True]),
    )
    def act_as_staff(self, what: str, order: int = 0, units: int = 1, again: bool = False) -> None:
        """Cancel, refund (in parts, too), concede or hold an order, or send the last act again."""
        chosen = self.order(order)
        number = 3 * 10**7 + next(self.numbers)
        if again and chosen.acts:
            number, (done, _amount) = list(chosen.acts.items())[-1]
            what = "hold" if done == "extended" else done
        key = UUID(int=number)
        row = OrderRow.objects.for_change().get(pk=self.orders[chosen])
        amount, time = 500 * units, 400 * units
        sale = chosen.lines[-1].sale
        part, own = Part(units, str(key), sale), orders.Part(units, key, self.rows[sale].pk)
        acts = {
            "cancel": (lambda: staff.cancel(row, ACT), chosen.cancel_by_staff),
            "refund": (
                lambda: staff.refund(row, ACT),
                lambda: self.model.refund(chosen, by_staff=True),
            ),
            "part": (
                lambda: staff.refund(row, ACT, own),
                lambda: self.model.refund(chosen, part, by_staff=True),
            ),
            "goodwill": (
                lambda: staff.concede(row, ACT, amount, key),
                lambda: self.model.concede(chosen, amount, number),
            ),
            "hold": (
                lambda: staff.hold(row, ACT, timedelta(seconds=time), key),
                lambda: self.model.hold(chosen, time, number),
            ),
        }
        do, change = acts[what]
        self.forget()
        code = ""
        try:
            do()
        except ProcessEnds:
            with suppress(Refused):
                change()
            return
        except Refusal as refusal:
            code = refusal.code
        result = outcome_of(change)
        expected = [""]
        if isinstance(result, Refused):
            expected = [result.code, *([result.or_else.code] if result.or_else else [])]
        assert code in expected, (what, code, expected)

    @precondition(lambda self: self.refunds("failed"))
    @rule(which=NUMBER)
    def retry_refund(self, which: int = 0) -> None:
        """Request a refund again that the provider refused, or all of them (11)."""
        failed = self.refunds("failed")
        chosen = failed if which == 11 else [failed[which % len(failed)]]
        numbers = [self.refund_row(order, refund).pk for order, refund in chosen]
        for _, refund in chosen:
            self.model.retry(refund)
        assert payments.retry(RefundRow.objects.filter(pk__in=numbers)) == len(chosen)

    def audit(self, *options: str) -> dict[str, Any]:
        """Run the audit; return what it prints. It exits with 1 if the books do not balance."""
        out, code = StringIO(), None
        try:
            call_command("audit", "--json", *options, stdout=out)
        except SystemExit as ended:
            code = ended.code
        found: dict[str, Any] = json.loads(out.getvalue())
        assert code == (None if found["balanced"] else 1)
        return found

    @precondition(lambda self: self.model.orders)
    @rule()
    def repair(self) -> None:
        """Run the audit with --repair, which does at once all that is to be done."""
        pending = [each for _, each in self.refunds("pending")]
        unpaid = [p for o in self.model.orders for p in o.payments if p.state == "pending"]
        if pending and (unpaid or len(pending) > 1):
            return  # the order of its questions decides
        self.provider.change_to(self.model.mode)
        self.audit("--repair")
        for order in self.model.orders:
            order.expire(self.model.now)
        self.model.settle()
        if self.model.mode != "silent":
            for order, payment in self.overlooked():
                self.model.record(order, payment, "done")
        self.model.follow_up()
        self.check_mails()

    # --- background tasks ----------------------------------------------------------------------

    @rule()
    def expire_orders(self) -> None:
        """Expire the orders whose time to pay is over."""
        tasks.expire_orders()
        for order in self.model.orders:
            order.expire(self.model.now)

    @rule(times=st.integers(1, 2))
    def follow_up(self, times: int = 1) -> None:
        """Deliver the outbox, perhaps twice."""
        for _ in range(times):
            tasks.follow_up()
        self.model.follow_up()

    @rule()
    def send_mails(self) -> None:
        """Send the mails that are due."""
        while tasks.send_mails():
            pass
        self.check_mails()

    @rule()
    def settle_payments(self) -> None:
        """Ask the provider about everything that has no answer, the oldest first."""
        for kind in (PaymentRow, RefundRow):
            waiting = kind.objects.filter(state="pending").order_by("pk")
            for place, pk in enumerate(waiting.values_list("pk", flat=True)):
                due = self.at(self.model.now - 1_000 + place)
                kind.objects.filter(pk=pk).update(not_before=due)
        self.provider.change_to(self.model.mode)
        tasks.settle_payments()
        self.model.settle()

    # --- what must agree -----------------------------------------------------------------------

    @invariant()
    def check_rows(self) -> None:
        """Compare stock, limits, orders, their histories and their money, here and there."""
        if not hasattr(self, "model"):
            return
        self.check_stock()
        found = {
            row.pk: row
            for row in OrderRow.objects.with_lines().prefetch_related("events", "payments__refunds")
        }
        assert found.keys() == set(self.orders.values())
        for order in self.model.orders:
            self.check_row(order, found[self.orders[order]])

    def check_stock(self) -> None:
        """Compare the items, the reasons why their stock has changed, and the buyers' limits."""
        model = self.model
        assert {item.pk: (item.available, item.total) for item in Item.objects.all()} == {
            row.item_id: (model.available(sale), sale.total) for sale, row in self.rows.items()
        }
        moved = StockMovement.objects.values_list("item", "reason").annotate(Sum("delta"))
        found = {(item, reason): units for item, reason, units in moved}
        for sale, row in self.rows.items():
            sold = sum(o.quantity for order in model.orders for o in order.lines if o.sale is sale)
            expected = {
                "restock": self.stocked[sale],
                "write_off": sale.total - self.stocked[sale],
                "sale": -sold,
            }
            assert {name: found.get((row.item_id, name), 0) for name in expected} == expected
        used = BuyerQuota.objects.filter(used__gt=0)
        assert {(quota.scope, quota.buyer): quota.used for quota in used} == {
            (row.pk, self.buyers[name].user.pk): units
            for sale, row in self.rows.items()
            for name in BUYERS
            if (units := model.held(sale, model.of(name)))
        }

    def check_row(self, order: Order, row: Any) -> None:
        """Compare an order with its row."""
        assert row.buyer_id == self.buyers[order.buyer].user.pk
        assert (row.status, row.amount, row.refunded) == (
            order.status,
            order.amount,
            order.refunded,
        )
        assert (row.fee_amount, row.conceded) == (order.fee, order.conceded)
        assert (row.currency, self.second(row.pay_before)) == (order.currency, order.pay_before)
        assert [(line.quantity, line.amount, line.live) for line in row.lines.all()] == [
            (line.quantity, line.price * line.quantity, order.live(line)) for line in order.lines
        ]
        assert [(event.kind, event.quantity, event.amount) for event in row.events.all()] == [
            (event.kind, event.quantity, event.amount) for event in order.timeline
        ]
        paid = sorted(row.payments.all(), key=lambda each: int(each.pk))
        assert [(each.state, each.amount, each.owed_back) for each in paid] == [
            (
                CAPTURED.get(payment.state, payment.state),
                payment.amount,
                order.to_give_back(payment),
            )
            for payment in order.payments
        ]
        given = [refund for each in paid for refund in each.refunds.all()]
        given.sort(key=lambda each: int(each.pk))
        assert [(each.state, each.amount, each.reason) for each in given] == [
            (refund.state, refund.amount, refund.reason) for refund in order.refunds
        ]
        taken = [payment.amount for payment in order.payments if payment.at_provider == "done"]
        assert sorted(self.provider.captures[row.pk]) == sorted(taken)
        returned = sum(refund.amount for refund in order.refunds if refund.at_provider == "done")
        assert sum(self.provider.refunds[row.pk]) == returned

    def check_mails(self) -> None:
        """Compare the mails that were sent since the last time with those that were due."""
        sent = [message.extra_headers["Message-ID"].partition("@")[0] for message in mail.outbox]
        due = []
        for order in self.model.orders:
            for kind, was_sent in order.mails.items():
                if not was_sent:
                    due.append(f"<{kind}.{self.orders[order]}")
                    order.mails[kind] = True
        mail.outbox.clear()
        assert sorted(sent) == sorted(due)

    # --- what rules choose from ----------------------------------------------------------------

    def order(self, number: int) -> Order:
        """Return an order; 0 is the latest."""
        return self.model.orders[-1 - number % len(self.model.orders)]

    def payable(self) -> list[Order]:
        """Return the orders that await a payment which the provider has not declined."""
        return [
            order
            for order in self.model.orders
            if order.shown(self.model.now) == AWAITING
            and all(payment.at_provider != "declined" for payment in order.payments)
        ]

    def working(self) -> list[tuple[Order, Money]]:
        """Return the payments and refunds that the provider works on."""
        return [
            (order, money)
            for order in self.model.orders
            for money in (*order.payments, *order.refunds)
            if money.at_provider == "working"
        ]

    def asked(self) -> list[tuple[Order, Money]]:
        """Return the payments whose buyers were asked by the provider and have not answered."""
        return [
            (order, payment)
            for order in self.model.orders
            for payment in order.payments
            if payment.at_provider == "asked"
        ]

    def decided(self) -> list[tuple[Order, Money]]:
        """Return what has ended: payments at the provider, refunds as the shop knows."""
        ended = [
            (order, payment)
            for order in self.model.orders
            for payment in order.payments
            if payment.at_provider in ("done", "failed", "cancelled")
        ]
        return ended + self.refunds("done") + self.refunds("failed")

    def overlooked(self) -> list[tuple[Order, Money]]:
        """Return the payments that were taken although the provider called them failed."""
        return [
            (order, payment)
            for order in self.model.orders
            for payment in order.payments
            if (payment.state, payment.at_provider) == ("failed", "done")
        ]

    def refunds(self, state: str) -> list[tuple[Order, Money]]:
        """Return the refunds in a state."""
        return [
            (order, refund)
            for order in self.model.orders
            for refund in order.refunds
            if refund.state == state
        ]

    def payment_row(self, order: Order, payment: Money) -> PaymentRow:
        """Return the row of a payment."""
        rows = PaymentRow.objects.filter(order=self.orders[order]).order_by("pk")
        return rows[order.payments.index(payment)]

    def refund_row(self, order: Order, refund: Money) -> RefundRow:
        """Return the row of a refund."""
        rows = RefundRow.objects.filter(payment__order=self.orders[order]).order_by("pk")
        return rows.select_related("payment")[order.refunds.index(refund)]
