"""Acts of the clock, of operators, and of what runs behind the shop."""

from __future__ import annotations

from typing import Any
from unittest import mock

from django.core import mail
from django.core.mail.backends.locmem import EmailBackend
from hypothesis import strategies as st

from inventory import outbox
from inventory.models import OutboxMessage
from shop.background import tasks
from shop.payments.models import Payment as PaymentRow
from shop.payments.models import Refund as RefundRow
from shop.specification.order import AWAITING, Part
from shop.tests.specification import rest
from shop.tests.specification.acts import NUMBER, act
from shop.tests.specification.clerk import Clerk
from shop.tests.specification.mistakes import make_mistakes
from shop.tests.specification.news import ProviderActs
from shop.tests.specification.words import disputed, pending_since
from shop.tests.specification.world import key_of


class OthersActs(ProviderActs):
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

    @act(1, seconds=st.sampled_from([1, 60, 300, 600]))
    def seconds_pass(self, seconds: int) -> str:
        """Let so much time go by."""
        self.world.pass_time(seconds)
        return f"{seconds} s go by"

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
        chosen = failed if which == 11 else [failed[which % len(failed)]]
        self.world.provider.be(self.model.mood)
        self.operator.retry(chosen)
        return f"the operator asks for {len(chosen)} refunds again"

    @act(2, looks=True, order=NUMBER)
    def the_operator_looks(self, order: int) -> None:
        rest.check_watching(self.world, self.operator)
        if self.model.orders:
            self.operator.check_order(self.order(order))

    @act(1, sale=NUMBER)
    def the_operator_errs(self, sale: int) -> str:
        chosen = self.sales[sale % 3]
        make_mistakes(self.operator, chosen)
        return f"the operator types what cannot be right into the forms of {chosen.name}"

    @act(1)
    def a_clerk_tries(self) -> str:
        """Let somebody who may only look find everything, and try all that operators do."""
        clerk = Clerk(self.operator)
        clerk.check_searches()
        clerk.check_acts()
        return "a clerk looks for everything, and tries what operators do"

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
        wanted = [f"expired {len(due)} orders past their deadline"]
        if asked:
            asked += sum(len(order.refunds) for order in model.orders) - known
            wanted.append(
                f"asked the provider about {asked} payments and refunds; "
                f"{self.unanswered()} are still pending"
            )
        if model.mood == "silent":
            wanted.append("the provider does not answer; its ledger was not compared (ledger)")
        else:
            overlooked = disputed(model)
            for order, payment in overlooked:
                model.hear(order, payment, "done")
            numbers = sorted({self.world.orders[order] for order, _ in overlooked})
            wanted += [f"recorded the provider's state of order {number}" for number in numbers]
        self.world.end()
        self.world.deliver()
        rest.check_sent(self.world)
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
            self.world.pass_time(901)  # they are given up, and no longer put off
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
        tried: dict[tuple[Any, Any], int] = {}
        for kind in (PaymentRow, RefundRow):
            waiting = kind.objects.filter(state="pending").order_by("pk")
            for place, row in enumerate(waiting):
                kind.objects.filter(pk=row.pk).update(
                    not_before=self.world.at(self.model.now - 1000 + place)
                )
                tried[kind, row.pk] = row.attempts  # type: ignore[attr-defined]
        self.world.provider.be(self.model.mood)
        tasks.settle_payments()
        for (kind, pk), attempts in tried.items():
            row = kind.objects.get(pk=pk)
            assert row.state != "pending" or row.attempts == attempts + 1
        self.model.settle()
