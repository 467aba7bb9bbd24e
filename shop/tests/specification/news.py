"""Acts of the payment provider, and of those who pretend to be it."""

from __future__ import annotations

import hashlib
import hmac
import json
from dataclasses import asdict

from django.conf import settings
from django.test import Client
from hypothesis import strategies as st

from shop.catalogue.sales import database_time
from shop.payments.models import Refund as RefundRow
from shop.payments.provider import PaymentUnknown
from shop.specification.order import AWAITING, Money, Order, Part
from shop.tests.specification.acts import NUMBER, Acts, News, act
from shop.tests.specification.world import Crash, key_of

FORGED = {"signature": 401, "body": 401, "secret": 401, "none": 401, "unknown": 503, "new": 200}
"""What is wrong with news, and the status of the answer; a new kind of news changes nothing."""

CAPTURED = "payment_intent.captured"


class ProviderActs(Acts):
    """What the provider does and reports, in any order."""

    @act(
        3,
        needs="a provider",
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
            row = self.refund_row(order, about)
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
            if abs(age) > 300:
                assert self.deliver(pk, chosen, age) == 401
            else:
                self.report(chosen, pk, age)
        return f"the news {chosen.kind} of order {self.place(chosen.order)} arrive, {age} s old"

    @act(1, needs="news", which=NUMBER)
    def news_come_too_early(self, which: int) -> str:
        """Deliver news of a payment before the shop has written its number down, and then again."""
        chosen = self.news[which % len(self.news)]
        if chosen.about.payment is not None:
            return ""
        row = self.payment_row(chosen.order, chosen.about)
        rows = type(row).objects.filter(pk=row.pk)
        rows.update(intent="")
        early = self.deliver(chosen.pk, chosen, 0)
        rows.update(intent=row.intent)
        assert early in (503, 200)  # the latter if they had arrived before
        self.report(chosen, chosen.pk)
        return f"the news {chosen.kind} of order {self.place(chosen.order)} come too early"

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
            self.report(each, each.pk)
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
            row = self.refund_row(order, about)
            if not row.number:
                return ""  # it was refused at once
            end, said = ("failed", "declined") if done else ("succeeded", "done")
            about_it = {"id": row.number, "intent": row.payment.intent, "amount": row.amount}
            data, kind = {**about_it, "status": end}, f"refund.{end}"
        else:
            intent = self.payment_row(order, about).intent
            end, said = ("failed", "failed") if done else ("captured", "done")
            if done:
                true = asdict(self.world.provider.intents[intent])
                self.news.append(  # it arrives at last
                    News(f"evt_{next(self.numbers)}", CAPTURED, true, order, about, "done")
                )
                data = true | {"status": end}
            else:
                data = self.world.provider.finish_payment(intent, end)
                about.there = "done"
            kind = f"payment_intent.{end}"
        news = News(f"evt_{next(self.numbers)}", kind, data, order, about, said)
        self.report(news, news.pk)
        return f"the provider now says {kind} of order {self.place(order)}"

    @act(1, needs="work", how=st.sampled_from([*FORGED]))
    def a_stranger_reports_a_payment(self, how: str) -> str:
        """Forge news of what is being worked on, or send what the shop does not know."""
        order, about = self.working()[0]
        if about.payment is not None:
            return ""
        intent = self.world.provider.intents[self.payment_row(order, about).intent]
        data = asdict(intent) | {"status": "captured"}
        kind = CAPTURED
        if how == "unknown":
            data["id"] = "pi_of_nobody"
        elif how == "new":
            kind = "payment_intent.admired"
        news = News(f"evt_{next(self.numbers)}", kind, data, order, about, "done")
        assert self.deliver(news.pk, news, 0, forged=how) == FORGED[how]
        return f"a stranger reports a payment, in vain: {how}"

    def report(self, news: News, pk: str, age: int = 0) -> None:
        """Deliver news; those of a refund that was asked for again since change nothing."""
        again = early = False
        if news.about.payment is not None:
            row = self.refund_row(news.order, news.about)
            again = row.number != news.data["id"]
            # Until the shop knows the number of what it has asked for, the news may be of that.
            early = again and (row.state, row.number) == ("pending", "") and pk not in self.taken
        assert self.deliver(pk, news, age) == (503 if early else 200)
        if not early:
            self.taken.add(pk)
        if not again:
            self.model.hear(news.order, news.about, news.news)

    def refund_row(self, order: Order, refund: Money) -> RefundRow:
        """Return the row of a refund."""
        return self.operator.refunds()[order.refunds.index(refund), self.world.orders[order]]

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
