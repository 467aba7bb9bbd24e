"""The real shop of a story, beside its model: who is there, what the time is, and what is written.

Times are whole seconds of the story, so that it can reach a deadline to the second.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

from django.core.cache import cache
from django.test import Client
from django.utils import translation

from inventory.hooks import AFTER_COMMIT, BEFORE_COMMIT, LOCKED, hooks
from inventory.metrics import metrics
from inventory.redis import client
from shop.accounts.models import User
from shop.catalogue.models import Sale as SaleRow
from shop.catalogue.sale_cache import availability_cache, sale_cache, stock_cache
from shop.conftest import Buyer
from shop.orders.models import Order as Row
from shop.payments.provider import LedgerLine, PaymentDeclined, PaymentUnknown, ProviderRefund
from shop.specification.order import AWAITING, Order, Sale
from shop.specification.shop import Shop
from shop.tests.provider import FakeProvider
from shop.tests.quick import delete_all
from shop.tests.specification import clock, opening, words
from shop.tests.specification.people import Person

STATUS = {
    **dict.fromkeys(("idempotency_key_missing", "malformed"), 400),
    **dict.fromkeys(("not_started", "paused"), 403),
    "unauthorized": 401,
    "not_found": 404,
    "ended": 410,
    "too_large": 413,
    "rate_limited": 429,
    **dict.fromkeys(("sold_out", "limit_reached", "payment_declined"), 409),
    **dict.fromkeys(("invalid_quantity", "invalid_cart", "invalid_request"), 422),
    "idempotency_key_reused": 422,
    **dict.fromkeys(("busy", "outcome_unknown", "not_yet"), 503),
}


def status_of(code: str) -> int:
    """Return the HTTP status of a refusal."""
    return 409 if code.startswith("order_") else STATUS[code]


def moment(when: str | datetime) -> datetime:
    """Return a time that is written in JSON or in a page."""
    return datetime.fromisoformat(when) if isinstance(when, str) else when


EARLY = timedelta(milliseconds=250)
"""Windows open and close so long before a second of the story: a form must not cut it off."""

QUEUE = "queue:{orders}"
"""Where the delay queue keeps its orders, in Redis."""

POINTS = (LOCKED, BEFORE_COMMIT, AFTER_COMMIT)
"""Of a purchase, where it can fail."""


class Crash(BaseException):
    """The process ends here."""


@contextmanager
def failing(point: str, error: BaseException) -> Iterator[None]:
    """Raise the error where a purchase reaches that point."""

    def hook(name: str) -> None:
        if name == point:
            raise error

    before, hooks.failpoint = hooks.failpoint, hook
    try:
        yield
    finally:
        hooks.failpoint = before


class Psp(FakeProvider):
    """A provider whose mood a story decides."""

    def __init__(self) -> None:
        super().__init__()
        self.be("answers")

    def be(self, mood: str, dies: type[BaseException] = PaymentUnknown) -> None:
        """Change the mood; a mood that loses answers ends the process instead, if `dies`."""
        self.slow, self.declines = mood == "works", mood == "declines"
        self.before = self.after = lambda call: None

        def lose(call: str) -> None:
            if mood == "silent" or call in ("capture", "refund"):
                raise dies(call)

        if mood in ("silent", "mute"):
            setattr(self, "before" if mood == "silent" else "after", lose)

    def ledger(self) -> Iterator[LedgerLine]:
        """Yield what moved as it would come over HTTP."""
        self.before("ledger")
        for intent in self.intents.values():
            about = (intent.order, intent.id)
            if intent.status == "captured":
                yield LedgerLine(1, *about, "capture", intent.amount, intent.currency)
            if intent.refunded:
                yield LedgerLine(2, *about, "refund", intent.refunded, intent.currency)

    def finish_payment(self, pk: str, news: str) -> dict[str, Any]:
        """Let a payment end; return what the news say."""
        if news == "captured":
            self._take(self.intents[pk])
        else:
            self.intents[pk] = replace(self.intents[pk], status=news)  # type: ignore[arg-type]
        return asdict(self.intents[pk])

    def finish_refund(self, number: str, news: str) -> dict[str, Any]:
        """Let a refund end; return what the news say."""
        refund = self.on_the_way.pop(number)
        if news == "succeeded":
            return asdict(self._give(refund))
        return asdict(replace(refund, status=news))  # type: ignore[arg-type]

    def _refund(self, pk: str, amount: int) -> ProviderRefund:
        if self.declines:
            raise PaymentDeclined("refused")
        return super()._refund(pk, amount)


class World:
    """The shop and its model.

    Args:
        sales: of the model; each is opened in the shop.
        provider: the shop's.
        payments: whether the shop takes any.
    """

    def __init__(self, sales: list[Sale], provider: Psp, *, payments: bool = True) -> None:
        delete_all()
        client().delete(QUEUE)
        self.epoch = clock.begin()
        self.model, self.provider = Shop(sales, payments=payments), provider
        self.texts = words.WITH_PAYMENTS if payments else words.WITHOUT_PAYMENTS
        self.stocked = {sale: sale.total for sale in sales}
        self.queued: set[Order] = set()
        self.outbox: list[int] = []
        self.mails: dict[tuple[Order, str], int] = {}
        self.alerts: dict[str, tuple[int, str]] = {}  # by kind: since when, and its text
        self.seen = self.skipped = self.failed = 0
        self.orders: dict[Order, int] = {}
        self.opened: dict[Order, int] = {}
        self.staff = Client()
        self.staff.force_login(User.objects.create_superuser("operator", password="!"))
        self.rows = {sale: self._open(sale) for sale in sales}
        for sale, row in self.rows.items():
            SaleRow.objects.filter(pk=row.pk).update(
                starts_at=self.at(sale.opens) - EARLY, ends_at=self.at(sale.closes) - EARLY
            )
        names = ("Ann", "Bob")
        self.people = {
            name: Person(name, Buyer(f"{name.lower()}-{uuid4().hex[:8]}")) for name in names
        }
        ann = self.people["Ann"].buyer.user
        ann.email = "ann@example.org"
        ann.save()
        for person in self.people.values():
            person.sign_in()
        self.visitor = Person("a visitor", browser=Client(enforce_csrf_checks=True))
        self._before = {name: self._counters(name) for name in ("order_events", "mails")}
        self.forget()

    def restocked(self, sale: Sale, units: int) -> None:
        """Count units that were added to a sale."""
        sale.total += units
        self.stocked[sale] += units

    def _open(self, sale: Sale) -> Any:
        """Open a sale: by a command, by an operator's forms, or as programs do."""
        if sale.name == "Phone":
            return opening.by_command(sale)
        if sale.name == "Gamma":
            return opening.by_forms(sale, self.staff)
        return opening.by_a_program(sale)

    # --- the time ---------------------------------------------------------------------------

    def at(self, second: int) -> datetime:
        """Return a second of the story as the database's time."""
        return self.epoch + timedelta(seconds=second)

    def second(self, when: str | datetime) -> int:
        """Return the first second of the story that is not before a time of the database."""
        return -int((self.epoch - moment(when)).total_seconds() // 1)

    def pass_time(self, seconds: int) -> None:
        """Let time go by; the messages of what happened before have waited from then on."""
        self.end()
        clock.advance(seconds)
        self.model.now += seconds

    def hurry_queue(self) -> None:
        """Let all orders of the delay queue be due by the queue's clock, which is Redis's."""
        redis: Any = client()
        waiting = redis.zrange(QUEUE, 0, -1)
        assert {int(number) for number in waiting} == {self.orders[order] for order in self.queued}
        for number in waiting:
            redis.zadd(QUEUE, {number: 0})

    def check_queue(self) -> None:
        """Compare the delay queue: which orders wait in it, and for how long."""
        redis: Any = client()
        now, _ = redis.time()
        found = redis.zrange(QUEUE, 0, -1, withscores=True)
        waits = {int(number): due / 1000 - now for number, due in found}
        assert waits.keys() == {self.orders[order] for order in self.queued}
        for order in self.queued:
            left = order.pay_before - self.model.now
            assert left - 60 < waits[self.orders[order]] < left + 2

    def forget(self) -> None:
        """Forget what a process may remember of the shop for a second, and of the last request."""
        for remembered in (sale_cache, stock_cache, availability_cache):
            remembered.cache_clear()
        cache.clear()
        translation.deactivate()

    # --- what is there ----------------------------------------------------------------------

    def row(self, order: Order) -> Row:
        """Return an order's row."""
        return Row.objects.with_lines().get(pk=self.orders[order])

    def learn(self, order: Order, pk: int) -> None:
        """Learn the number of an order, or check that it is the one."""
        assert order in self.orders or pk > self.skipped, "a number that a lost order may have had"
        assert pk not in self.orders.values() or self.orders.get(order) == pk, "another's order"
        assert self.orders.setdefault(order, pk) == pk, "a second order"
        self.opened.setdefault(order, self.model.now)

    def skip_numbers(self, count: int) -> None:
        """Skip numbers, as after the restore of a database: some orders may have been lost."""
        self.skipped = max(self.orders.values(), default=0) + count

    def document(self, order: Order) -> dict[str, Any]:
        """Return an order as the API must show it."""

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
        return {
            "id": self.orders[order],
            "sale": lines[0]["sale"] if len(lines) == 1 else None,
            "quantity": sum(line.quantity for line in order.lines),
            "amount": money(order.amount),
            "status": order.status,
            "refunded": money(order.refunded),
            "lines": lines,
        }

    def _counters(self, name: str) -> Counter[str]:
        counters = metrics.snapshot()["counters"]
        return Counter({key[1]: value for key, value in counters if key[0] == name})

    def counted(self, name: str) -> Counter[str]:
        """Return what the metrics have counted in this story, by label."""
        return self._counters(name) - self._before[name]

    def end(self, *, together: bool = False) -> None:
        """Count the messages of an act; what the clock does to several orders is one."""
        news = sum(len(order.news) for order in self.model.orders)
        fresh = max(news - self.seen, 0)
        self.outbox += [self.model.now] * (min(fresh, 1) if together else fresh)
        self.seen = news

    def deliver(self) -> None:
        """Follow up orders in the model, as the outbox does."""
        for order in self.model.orders:
            waits = self.model.payments and order.shown(self.model.now) == AWAITING
            if waits and "opened" in order.news:
                self.queued.add(order)
        self.model.follow_up()
        for order in self.model.orders:
            for kind, sent in order.mails.items():
                if not sent:
                    self.mails.setdefault((order, kind), self.model.now)
            if order.status not in (AWAITING, "expired"):
                self.queued.discard(order)
        self.outbox.clear()
        self.seen = 0


def key_of(number: int) -> str:
    """Return a buyer's key by its number."""
    return str(UUID(int=number))
