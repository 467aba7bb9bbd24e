"""The shop: what buyers may do, how money is taken once or not at all and what is owed goes back
once, what the clock does, and what waits behind it."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from contextlib import suppress

from shop.specification.order import AWAITING, Line, Order, Part, Payment, Refund, Refused, Sale

MAILS = {"opened": "confirmation", "paid": "paid", "paid_late": "paid", "expired": "expired"}
MAILS |= {"refunded": "refunded", "money_owed": "money_owed"}
"""The mail that follows an event: one of each kind per order, however often."""


class Shop:
    """One shop; its sales in order of their numbers, its orders the oldest first. The payment
    provider `answers` at once, or it `works` for a while, `declines`, is `silent` and does nothing,
    or `mute`: it does it, and its answer is lost."""

    def __init__(self, sales: list[Sale]) -> None:
        self.sales, self.now, self.mood = sales, 0, "answers"
        self.orders: list[Order] = []
        self.carts: dict[str, dict[Sale, int]] = {}  # by browser: units by sale

    def buy(
        self, buyer: str, key: Hashable, wanted: Mapping[Sale, int], *, cart: bool = False
    ) -> tuple[Order, bool]:
        """Buy all of it, or nothing; return the order, and whether it is an earlier one.

        The same key brings the same order, also when the sale is over.
        """
        lines = {sale: wanted[sale] for sale in self.sales if sale in wanted}
        for sale, units in lines.items():
            if not 1 <= units <= 1000:
                raise Refused("invalid_quantity", about=sale)
        if len({sale.currency for sale in lines}) != 1:
            raise Refused("invalid_cart")
        for order in self.of(buyer):
            if order.key == key:
                if {line.sale: line.quantity for line in order.lines} != lines:
                    raise Refused("idempotency_key_reused")
                return order, True
        for sale in lines:
            if code := sale.closed(self.now):
                raise Refused(code, about=sale)
        for sale, units in lines.items():
            self._check(buyer, sale, units, cart=cart)
        bought = [Line(sale, units, sale.price, units) for sale, units in lines.items()]
        deadline = self.now + min(sale.hold for sale in lines)
        self.orders.append(Order(buyer, key, bought, bought[0].sale.currency, deadline))
        return self.orders[-1], False

    def _check(self, buyer: str, sale: Sale, units: int, *, cart: bool) -> None:
        left, available = sale.left_for(buyer), sale.available
        if units > left:
            # Who never bought may be told that nothing is left before the limit is looked at.
            new = not cart and not available and not self.of(buyer)
            or_else = "sold_out" if new else ""
            raise Refused("limit_reached", about=sale, left=left, or_else=or_else)
        if units > available:
            coming = self.may_come_back(sale)
            raise Refused("sold_out", about=sale, available=available, may_come_back=coming)

    def of(self, buyer: str) -> list[Order]:
        """Return a buyer's orders, which nobody else sees."""
        return [order for order in self.orders if order.buyer == buyer]

    def may_come_back(self, sale: Sale) -> bool:
        """Tell whether units are reserved but not paid, and so may be for sale again."""
        unpaid = [order for order in self.orders if order.status == AWAITING]
        return any(line.sale is sale and line.kept for order in unpaid for line in order.lines)

    def put_into_cart(self, browser: str, sale: Sale, units: int) -> None:
        """Set what a cart holds of a sale; none removes it. A cart has one currency."""
        if not 0 <= units <= 1000:
            raise Refused("invalid_quantity")
        cart = self.carts.setdefault(browser, {})
        if units and any(each.currency != sale.currency for each in cart):
            raise Refused("invalid_cart")
        cart.pop(sale, None)
        cart |= {sale: units} if units else {}

    def check_out(self, browser: str, key: Hashable) -> Order | None:
        """Buy the cart, which is empty then; None if it was empty and the key bought nothing."""
        cart = self.carts.get(browser)
        if not cart:
            return next((order for order in self.of(browser) if order.key == key), None)
        order, _ = self.buy(browser, key, cart, cart=True)
        cart.clear()
        return order

    def pay(self, order: Order) -> None:
        """Pay an order. Paying again changes nothing."""
        if order.status in ("paid", "fulfilled"):
            return None
        pending = [each for each in order.payments if each.state == "pending"]
        if not pending:
            self._check_payable(order)
            if not order.amount:
                return order.step("paid", "paid")
            pending = [Payment(order.amount, self.now)]
            order.payments += pending
        self.ask_about(order, pending[0])
        if order.status not in ("awaiting_payment", "paid", "fulfilled"):
            raise Refused(f"order_{order.status}")
        if pending[0].state == "failed":
            self._check_payable(order)
            raise Refused("payment_declined")
        return None

    def _check_payable(self, order: Order) -> None:
        if (status := order.shown(self.now)) != AWAITING:
            raise Refused(f"order_{status}")

    def _does(self, done: str) -> str:
        return {"works": "working", "declines": "declined"}.get(self.mood, done)

    def _expect_answer(self, without: str) -> None:
        if self.mood == without:
            raise Refused("outcome_unknown")

    def ask_about(self, order: Order, payment: Payment) -> None:
        """Charge a payment while its order can be paid; otherwise see to it that nothing is."""
        self._expect_answer("silent")
        if payment.there == "nothing" and order.shown(self.now) != AWAITING:
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
            if order.status == AWAITING:
                order.step("paid", "paid")
            elif order.status == "expired" and order.take_again():
                order.step("paid_late", "paid")
            else:
                return self.owe(order, payment, payment.amount, "too_late")
            return self.owe(order, payment, payment.amount - order.amount, "too_much")
        if news != "captured" and payment.state == "pending":
            payment.state = "failed"
            order.note("payment_failed", None, payment.amount)
        return None

    def owe(self, order: Order, payment: Payment, amount: int, reason: str) -> None:
        """Owe money that is to go back."""
        if amount > 0:
            payment.owed_back += amount
            order.refunds.append(Refund(payment, amount, reason, self.now))
            if reason != "returned":
                order.note("money_owed", None, amount)

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
        if refund.state == "pending":
            refund.state = "done" if news == "done" else "failed"
            order.refunded += refund.amount if news == "done" else 0
            order.note("money_back" if news == "done" else "refund_failed", None, refund.amount)
            self._finish(order)

    def retry(self, order: Order, refund: Refund) -> None:
        """Ask again for a refund that the provider refused, as an operator may."""
        refund.state, refund.there, refund.acknowledged = "pending", "nothing", False
        self.ask_for(order, refund)

    def _finish(self, order: Order) -> None:
        if order.status == "refund_pending" and all(r.state == "done" for r in order.refunds):
            order.step("refunded", "refunded")

    def settle(self) -> None:
        """Ask the provider about all that has no answer yet: payments, then refunds."""
        for asks, kind in ((self.ask_about, "payments"), (self.ask_for, "refunds")):
            for order in self.orders:
                for each in getattr(order, kind):
                    with suppress(Refused):
                        if each.state == "pending":
                            asks(order, each)

    def follow_up(self) -> None:
        """Owe the mails that follow what happened."""
        for order in self.orders:
            for kind in order.news:
                if kind in MAILS:
                    order.mails.setdefault(MAILS[kind], False)
            order.news.clear()
