"""Money: a payment is taken once or not at all, and what is owed goes back once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from shop.specification.sale import Refused

if TYPE_CHECKING:
    from shop.specification.order import Order, Part


@dataclass(eq=False)
class Payment:
    """An attempt to pay: pending, captured or failed, as the shop knows; `there`, the provider has
    nothing, or it is working, captured, declined, cancelled or failed."""

    amount: int
    begun: int
    state: str = "pending"
    there: str = "nothing"
    owed_back: int = 0
    given_back: int = 0


@dataclass(eq=False)
class Refund:
    """Money that is owed: pending, done or failed; `there`, nothing, working, done or declined."""

    payment: Payment
    amount: int
    reason: str
    begun: int
    state: str = "pending"
    there: str = "nothing"
    acknowledged: bool = False


class Till:
    """Where orders are paid and money goes back. The provider `answers` at once, or it `works` for
    a while, `declines`, is `silent` and does nothing, or `mute`: it does it, its answer is lost."""

    now = 0
    mood = "answers"

    def pay(self, order: Order) -> None:
        """Pay an order. Paying again changes nothing."""
        if order.status in ("paid", "fulfilled"):
            return
        pending = [each for each in order.payments if each.state == "pending"]
        if not pending:
            self._check_payable(order)
            if not order.amount:
                order.step("paid", "paid")
                return
            pending = [Payment(order.amount, self.now)]
            order.payments += pending
        self.ask_about(order, pending[0])
        if order.status not in ("awaiting_payment", "paid", "fulfilled"):
            raise Refused(f"order_{order.status}")
        if pending[0].state == "failed":
            self._check_payable(order)
            raise Refused("payment_declined")

    def _check_payable(self, order: Order) -> None:
        if order.shown(self.now) != "awaiting_payment":
            raise Refused(f"order_{order.shown(self.now)}")

    def _does(self, done: str) -> str:
        return {"works": "working", "declines": "declined"}.get(self.mood, done)

    def _expect_answer(self, silent: str) -> None:
        if self.mood == silent:
            raise Refused("outcome_unknown")

    def ask_about(self, order: Order, payment: Payment) -> None:
        """Charge a payment while its order can be paid; otherwise see to it that nothing is."""
        self._expect_answer("silent")
        if payment.there == "nothing" and order.shown(self.now) != "awaiting_payment":
            payment.there = "cancelled"
        elif payment.there == "nothing":
            payment.there = self._does("captured")
            self._expect_answer("mute")
        if payment.there != "working":
            self.hear(order, payment, payment.there)

    def hear(self, order: Order, payment: Payment, news: str) -> None:
        """Take what the provider says of a payment. Money that was taken is never overlooked."""
        if news == "captured" and payment.state != "captured":
            payment.state = "captured"
            if order.status == "awaiting_payment":
                order.step("paid", "paid")
            elif order.status == "expired" and order.take_again():
                order.step("paid_late", "paid")
            else:
                return self.owe(order, payment, payment.amount, "too_late")
            return self.owe(order, payment, payment.amount - order.amount, "too_much")
        if news != "captured" and payment.state == "pending":
            payment.state = "failed"
            self._note(order, "payment_failed", payment.amount)
        return None

    def _note(self, order: Order, kind: str, amount: int) -> None:
        from shop.specification.order import Event

        order.note(Event(kind, amount=amount))

    def owe(self, order: Order, payment: Payment, amount: int, reason: str) -> None:
        """Owe money that is to go back."""
        if amount > 0:
            payment.owed_back += amount
            order.refunds.append(Refund(payment, amount, reason, self.now))
            if reason != "returned":
                self._note(order, "money_owed", amount)

    def refund(self, order: Order, part: Part | None = None) -> None:
        """Return a paid order, or a part of it. Repeating it changes nothing."""
        worth = order.give_back("returned", part, "paid") if part else None
        if order.status == "paid" and (
            not part or (worth is not None and not any(line.kept for line in order.lines))
        ):
            order.end("returned", "refund_pending", "resells_returned")
            self._owe_the_buyer(order)
            self._finish(order)
        elif worth is not None:
            self._owe_the_buyer(order, worth)
        elif not part and order.status not in ("refund_pending", "refunded"):
            raise Refused(f"order_{order.status}")
        for each in order.refunds:
            if each.state == "pending":
                self.ask_for(order, each)

    def _owe_the_buyer(self, order: Order, most: int | None = None) -> None:
        for payment in order.payments:
            if payment.state == "captured":
                left = payment.amount - payment.owed_back
                self.owe(order, payment, left if most is None else min(most, left), "returned")

    def ask_for(self, order: Order, refund: Refund) -> None:
        """Ask the provider to give money back, or what became of it."""
        self._expect_answer("silent")
        if refund.there == "nothing":
            refund.there = self._does("done")
            refund.payment.given_back += refund.amount if refund.there == "done" else 0
        self._expect_answer("mute")
        if refund.acknowledged and refund.payment.given_back != refund.payment.owed_back:
            return
        refund.acknowledged = refund.there != "declined"
        if refund.there != "working":
            self.hear_of(order, refund, refund.there)

    def hear_of(self, order: Order, refund: Refund, news: str) -> None:
        """Take what the provider says of a refund. It counts once."""
        if refund.state == "pending" and news == "done":
            refund.state = "done"
            order.refunded += refund.amount
            self._note(order, "money_back", refund.amount)
            self._finish(order)
        elif refund.state == "pending":
            refund.state = "failed"
            self._note(order, "refund_failed", refund.amount)

    def retry(self, order: Order, refund: Refund) -> None:
        """Ask again for a refund that the provider refused, as an operator may."""
        refund.state, refund.there, refund.acknowledged = "pending", "nothing", False
        self.ask_for(order, refund)

    def _finish(self, order: Order) -> None:
        if order.status == "refund_pending" and all(r.state == "done" for r in order.refunds):
            order.step("refunded", "refunded")
