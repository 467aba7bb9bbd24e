"""Acts of the clock, the provider, operators, and of what runs behind the shop."""

from __future__ import annotations

import hashlib
import hmac
import json
from dataclasses import asdict
from unittest import mock

from django.conf import settings
from django.core import mail
from django.core.mail.backends.locmem import EmailBackend
from django.test import Client
from hypothesis import strategies as st

from inventory import outbox
from inventory.models import OutboxMessage
from shop.background import tasks
from shop.catalogue.sales import database_time
from shop.payments.models import Payment as PaymentRow
from shop.payments.models import Refund as RefundRow
from shop.payments.provider import PaymentUnknown, ProviderRefund
from shop.specification.order import AWAITING, Money, Order, Part
from shop.tests.specification import rest
from shop.tests.specification.acts import NUMBER, Acts, News, act
from shop.tests.specification.words import pending_since
from shop.tests.specification.world import Crash, key_of

FORGED = {"signature": 401, "body": 401, "secret": 401, "none": 401, "unknown": 503, "new": 200}
"""What is wrong with news, and the status of the answer; a new kind of news changes nothing."""


class OthersActs(Acts):
    """What happens without the buyers."""

    @act(3, towards=NUMBER, edge=st.integers(-1, 1))
    def time_passes(self, towards: int, edge: int) -> str:
        """Go on to a second before, of or after what is next, or a while."""
        now = self.model.now
        moments = {sale.opens for sale in self.sales} | {sale.closes for sale in self.sales}
        moments |= {order.pay_before + more for order in self.model.orders for more in (0, 60)}
        ahead = sorted(moment + edge - now for moment in moments if moment + edge > now)
        seconds = [1, 61, 301, 901, *ahead[: 12 - 4]]
        passed = (
            seconds[-1 - towards % len(seconds)] if towards > 5 else seconds[towards % len(seconds)]
        )
        passed = min(passed, 1_000)
        self.world.pass_time(passed)
        return f"{passed} s go by"

    @act(2, task=st.sampled_from(["expire_orders", "expire_due"]), times=st.integers(1, 2))
    def the_clock_ends_orders(self, task: str, times: int) -> str:
        """Run the sweep; or go through the delay queue, whose clock is fast: all seem to be due."""
        world = self.world
        for _ in range(times):
            if task == "expire_due":
                world.hurry_queue()
            getattr(tasks, task)()
            for order in self.model.orders:
                if task == "expire_orders" or order in world.queued:
                    order.expire(self.model.now)
            if task == "expire_due":
                world.queued = {order for order in world.queued if order.status == AWAITING}
                world.check_queue()
        return f"the shop runs {task}"

    @act(
        3,
        mood=st.sampled_from([*["answers"] * 3, *["works"] * 2, "declines", "silent", "mute"]),
        dies=st.booleans(),
    )
    def the_provider_becomes(self, mood: str, dies: bool) -> str:
        """Change the provider's mood; one that loses answers may end our process instead."""
        dies = dies and mood in ("silent", "mute")
        self.world.provider.be(mood, Crash if dies else PaymentUnknown)
        self.model.mood = mood
        return f"the provider {'ends our process when it should be ' if dies else 'is '}{mood}"

    @act(5, needs="work", which=NUMBER, well=st.booleans())
    def the_provider_finishes(self, which: int, well: bool) -> str:
        """End what the provider works on; the news of it wait."""
        working = self.working()
        end = "captured" if well else ["failed", "cancelled"][which % 2]
        news = self.finish(*working[which % len(working)], end=end)
        return f"the provider ends its work on order {self.place(news.order)}: {news.news}"

    def finish(self, order: Order, about: Money, *, end: str) -> News:
        """Let the provider end its work; its news wait."""
        if about.payment is None:
            data = self.world.provider.finish_payment(self.payment_row(order, about).intent, end)
            kind, about.there = f"payment_intent.{end}", "done" if end == "captured" else end
        else:
            row = self.operator.refunds()[order.refunds.index(about), self.world.orders[order]]
            news = "succeeded" if end == "captured" else "failed"
            data = self.world.provider.finish_refund(row.number, news)
            kind, about.there = f"refund.{news}", "done" if end == "captured" else "declined"
        self.news.append(News(f"evt_{next(self.numbers)}", kind, data, order, about, about.there))
        return self.news[-1]

    @act(
        4,
        needs="news",
        which=NUMBER,
        times=st.integers(1, 2),
        age=st.sampled_from([0, 0, 0, -295, 295, 310, -310]),
        other=st.booleans(),
    )
    def news_arrive(self, which: int, times: int, age: int, other: bool) -> str:
        """Deliver news: in any order, again, under another number, old, or with a wrong name."""
        chosen = self.news[which % len(self.news)]
        for again in range(times):
            pk = f"evt_{next(self.numbers)}" if other and again else chosen.pk
            status = self.deliver(pk, chosen, age)
            assert status == (401 if abs(age) > 300 else 200)
            if status == 200:
                self.hear(chosen)
        return f"the news {chosen.kind} of order {self.place(chosen.order)} arrive, {age} s old"

    @act(
        5,
        needs="an unpaid order",
        which=NUMBER,
        part=st.booleans(),
        meanwhile=st.sampled_from(["", "", "cancel", "late", "expired", "expired"]),
        end=st.sampled_from(["captured", "captured", "captured", "failed", "cancelled"]),
    )
    def paying_takes_a_while(self, which: int, part: bool, meanwhile: str, end: str) -> str:
        """Pay; the provider works on it, and something happens before its news."""
        unpaid = [o for o in self.model.orders if o.shown(self.model.now) == AWAITING]
        if not unpaid or any(p.there != "declined" for p in unpaid[0].payments):
            return ""
        order = unpaid[-1 - which % len(unpaid)]
        self.world.provider.be("works")
        self.model.mood = "works"
        person = self.person(order)
        self.doors.change_by_api(person, order, "payment", None)
        if part:
            some = Part(1, key_of(10**6 + next(self.numbers)), order.lines[-1].sale)
            self.doors.change_by_api(person, order, "cancel", some)
        if meanwhile == "cancel":
            self.doors.change_by_api(person, order, "cancel", None)
        elif meanwhile:
            self.world.pass_time(order.pay_before - self.model.now)
            if meanwhile == "expired":
                self.quietly("the_clock_ends_orders", task="expire_orders", times=1)
                self.world.end(together=True)
        self.world.end()
        news = [self.finish(o, p, end=end) for o, p in self.working() if p in order.payments]
        for each in news:
            assert self.deliver(each.pk, each, 0) == 200
            self.hear(each)
        then = f"{'a part is cancelled, ' if part else ''}{meanwhile}, {end}"
        return f"{person.name} pays order {self.place(order)}, then: {then}"

    @act(2, needs="a decision", which=NUMBER)
    def the_provider_contradicts_itself(self, which: int) -> str:
        """Report that money failed to move which was moved, or that it moved after it had failed:
        a payment really did then, whereas a refund that failed is asked for again.
        """
        order, about = self.decided()[which % len(self.decided())]
        done = about.there == "done"
        if about.payment is not None:
            row = self.operator.refunds()[order.refunds.index(about), self.world.orders[order]]
            if not row.number:
                return ""  # it was refused at once
            end, said = ("failed", "declined") if done else ("succeeded", "done")
            data = asdict(ProviderRefund(row.number, row.payment.intent, row.amount, end))
            kind = f"refund.{end}"
        else:
            intent = self.payment_row(order, about).intent
            end, said = ("failed", "failed") if done else ("captured", "done")
            if done:
                data = asdict(self.world.provider.intents[intent]) | {"status": end}
            else:
                data = self.world.provider.finish_payment(intent, end)
                about.there = "done"
            kind = f"payment_intent.{end}"
        news = News(f"evt_{next(self.numbers)}", kind, data, order, about, said)
        assert self.deliver(news.pk, news, 0) == 200
        self.hear(news)
        return f"the provider now says {kind} of order {self.place(order)}"

    @act(1, needs="work", how=st.sampled_from([*FORGED]))
    def a_stranger_reports_a_payment(self, how: str) -> str:
        """Forge news of what is being worked on, or send what the shop does not know."""
        order, about = self.working()[0]
        if about.payment is not None:
            return ""
        intent = self.world.provider.intents[self.payment_row(order, about).intent]
        data = asdict(intent) | {"status": "captured"}
        kind = "payment_intent.captured"
        if how == "unknown":
            data["id"] = "pi_of_nobody"
        elif how == "new":
            kind = "payment_intent.admired"
        news = News(f"evt_{next(self.numbers)}", kind, data, order, about, "done")
        assert self.deliver(news.pk, news, 0, forged=how) == FORGED[how]
        return f"a stranger reports a payment, in vain: {how}"

    def hear(self, news: News) -> None:
        self.model.hear(news.order, news.about, news.news)

    def deliver(self, pk: str, news: News, age: int, *, forged: str = "") -> int:
        """Call the webhook; return its status."""
        body = json.dumps({"id": pk, "type": news.kind, "data": news.data}).encode()
        at = str(int(database_time().timestamp()) - age).encode()
        secret = "a guess" if forged == "secret" else settings.PSP_WEBHOOK_SECRET
        signed = hmac.new(secret.encode(), at + b"." + body, hashlib.sha256).hexdigest()
        signed = signed[::-1] if forged == "signature" else signed
        headers = {"PSP-Signature": f"t={at.decode()},v1={signed}"} if forged != "none" else {}
        answer = Client().post(
            "/api/v1/webhooks/psp",
            body.replace(b"{", b"{ ", 1) if forged == "body" else body,
            content_type="application/json",
            headers=headers,
        )
        return answer.status_code

    @act(
        3,
        sale=NUMBER,
        what=st.sampled_from(
            ["pause", "resume", "restock", "price", "product", "hold", "rules", "limit", "closes"]
        ),
        units=st.integers(1, 3),
    )
    def the_operator_changes(self, sale: int, what: str, units: int) -> str:
        chosen = self.sales[sale % 3]
        if what in ("pause", "resume"):
            self.operator.pause(chosen, paused=what == "pause")
        elif what == "restock":
            self.operator.restock(chosen, units, twice=sale % 2 == 1)
        elif what == "price":
            self.operator.edit(chosen, {"price": 1_000 * units + 7})
        elif what == "product":
            self.operator.edit_product(chosen, 1_500 * units)
        elif what == "hold":
            self.operator.edit(chosen, {"hold": 45 * units})
        elif what == "limit":
            self.operator.edit(chosen, {"limit": units})
        elif what == "closes":
            self.operator.edit(chosen, {"closes": max(self.model.now, chosen.opens) + 40 * units})
        else:
            rules = {"restock_cancelled": units > 1, "restock_returned": units < 3}
            self.operator.edit(chosen, rules)
        return f"the operator changes {chosen.name}: {what} {units}"

    @act(3, needs="an order", order=NUMBER, then=st.sampled_from(["", "refund", "part", "part"]))
    def the_operator_hands_over(self, order: int, then: str) -> str:
        """Hand an order over, if it is paid; the buyer may try to return it."""
        paid = [each for each in self.model.orders if each.status == "paid"]
        chosen = paid[-1] if paid and order < 9 else self.order(order)
        self.operator.hand_over(chosen)
        if then:
            part = Part(1, key_of(10**6 + next(self.numbers)), chosen.lines[0].sale)
            buyer = self.person(chosen)
            self.doors.change_by_api(buyer, chosen, "refund", part if then == "part" else None)
        return f"the operator hands order {self.place(chosen)} over; the buyer returns: {then}"

    @act(4, needs="a failed refund", which=NUMBER)
    def the_operator_asks_for_a_refund_again(self, which: int) -> str:
        failed = self.refunds("failed")
        order, refund = failed[which % len(failed)]
        self.world.provider.be(self.model.mood)
        self.operator.retry(order, refund)
        return f"the operator asks for a refund of order {self.place(order)} again"

    @act(2, looks=True, order=NUMBER)
    def the_operator_looks(self, order: int) -> None:
        rest.check_watching(self.world, self.operator)
        if self.model.orders:
            self.operator.check_order(self.order(order))

    @act(1, times=st.integers(1, 2))
    def the_shop_follows_up(self, times: int) -> str:
        """Deliver the outbox, perhaps twice, and ask for the mails that are owed."""
        for _ in range(times):
            tasks.follow_up()
        self.world.deliver()
        return "the shop follows up"

    @act(2, needs="an order")
    def the_operator_repairs(self) -> str:
        """Run the audit with --repair, which does at once all that is to be done."""
        waits = pending_since(self.model)
        crowded = [o for o in self.model.orders if sum(r.state == "pending" for r in o.refunds) > 1]
        if (waits["payment"] and waits["refund"]) or crowded:
            return ""  # the order of its questions decides
        self._repair()
        return "the operator runs the audit with --repair"

    def unanswered(self) -> int:
        """Return how many payments and refunds have no answer."""
        waits = pending_since(self.model)
        return len(waits["payment"]) + len(waits["refund"])

    def _repair(self, woken: int = 0) -> None:
        model = self.model
        self.world.provider.be(model.mood)
        mail.outbox = []
        said = self.operator.audit("--repair")["repaired"]
        due = [order for order in model.orders if order.shown(model.now) != order.status]
        asked = self.unanswered()
        known = sum(len(order.refunds) for order in model.orders)
        for order in model.orders:
            order.expire(model.now)
        model.settle()
        self.world.end()
        self.world.deliver()
        rest.check_sent(self.world)
        wanted = [f"expired {len(due)} orders past their deadline"]
        if asked:
            asked += sum(len(order.refunds) for order in model.orders) - known
            wanted.append(
                f"asked the provider about {asked} payments and refunds; "
                f"{self.unanswered()} are still pending"
            )
        if model.mood == "silent":
            wanted.append("the provider does not answer; its ledger was not compared (ledger)")
        if woken:
            wanted.append(f"made {woken} messages due that were put off or dead")
        assert said == [*wanted, "0 messages are not done yet"]

    @act(1)
    def numbers_are_skipped(self) -> str:
        """Skip numbers, as after a restore of the database."""
        self.world.skip_numbers(self.operator.restore())
        return "the operator skips numbers, as after a restore"

    @act(1)
    def the_shop_sends_mails(self) -> str:
        rest.check_mails(self.world)
        return "the shop sends mails"

    @act(1, needs="a due mail", by=st.sampled_from(["an operator", "the repair"]))
    def mails_are_given_up(self, by: str) -> str:
        """Let the mail server refuse mails for the last time; they are to be tried again."""
        due = OutboxMessage.objects.filter(queue="mail", done=None)
        due.update(attempts=outbox.MAX_ATTEMPTS - 1)
        count, chosen = due.count(), list(due.values_list("pk", flat=True))
        with mock.patch.object(EmailBackend, "send_messages", side_effect=OSError("no mail")):
            tasks.send_mails()
        self.world.failed += count
        rest.check_watching(self.world, self.operator, dead=count)
        if by == "the repair" and not self.unanswered():
            self._repair(woken=count)
        else:
            done = OutboxMessage.objects.exclude(done=None).values_list("pk", flat=True)[:1]
            said = self.operator.does("inventory_outboxmessage", "retry", *chosen, *done)
            assert said == f"{count} will be retried at once."
            self.operator.log += ["Retried."] * count
        return f"{count} mails are given up, and {by} tries again"

    @act(1, times=st.integers(1, 2))
    def the_shop_asks_the_provider(self, times: int) -> str:
        """Let the sweep ask about all that has no answer, the oldest first."""
        for _ in range(times):
            self._settle()
        return "the shop asks the provider about what is pending"

    def _settle(self) -> None:
        for kind in (PaymentRow, RefundRow):
            waiting = kind.objects.filter(state="pending").order_by("pk")
            for place, row in enumerate(waiting):
                kind.objects.filter(pk=row.pk).update(
                    not_before=self.world.at(self.model.now - 1000 + place)
                )
        self.world.provider.be(self.model.mood)
        tasks.settle_payments()
        self.model.settle()
