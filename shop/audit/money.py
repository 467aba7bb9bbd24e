"""Compare order amounts, the shop's payments and the provider's ledger."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

from django.db import connection

from shop.money import plain
from shop.payments.identification import is_foreign
from shop.payments.models import Discrepancy, Payment
from shop.payments.provider import from_provider, provider

OF_ITEMS = """ANY(ARRAY(
    SELECT line.order_id FROM shop_orderline AS line
    JOIN inventory_reservation AS reservation ON reservation.id = line.reservation_id
    WHERE reservation.item_id = ANY(%(items)s)))"""
"""The orders of items. An array lets the audit of one sale use the index of orders; with IN it
would read them all."""

# The value of what a buyer keeps of an order, less what staff conceded, against captures minus
# refunds owed. Each step of an order writes both in one transaction, so they agree at every moment.
# What was conceded comes first off the fees that stay with the shop, then off the units.
UNPAID = f"""
SELECT shop_order.id, shop_order.status, shop_order.currency,
       GREATEST(worth.kept + fees.kept - shop_order.conceded, 0), COALESCE(taken.sum, 0)
FROM shop_order
JOIN LATERAL (
    SELECT COALESCE(sum(line.amount / line.quantity
               * (reservation.quantity - reservation.returned))
               FILTER (WHERE reservation.state <> 'released'
                         AND shop_order.status IN ('paid', 'fulfilled')), 0)::bigint AS kept
    FROM shop_orderline AS line
    JOIN inventory_reservation AS reservation ON reservation.id = line.reservation_id
    WHERE line.order_id = shop_order.id
) AS worth ON true
-- Of an order that was paid, the fees that did not go back, by the rule of shop/orders/totals.py.
JOIN LATERAL (
    SELECT CASE WHEN shop_order.status IN ('paid', 'fulfilled', 'refund_pending', 'refunded')
                THEN shop_order.fee_amount ELSE 0 END AS kept
) AS fees ON true
LEFT JOIN LATERAL (
    SELECT sum(amount - owed_back)::bigint AS sum FROM shop_payment
    WHERE order_id = shop_order.id AND state = 'captured'
) AS taken ON true
WHERE GREATEST(worth.kept + fees.kept - shop_order.conceded, 0) <> COALESCE(taken.sum, 0)
  AND (%(items)s::bigint[] IS NULL OR shop_order.id = {OF_ITEMS})
ORDER BY shop_order.id LIMIT 1000
"""

# What an order keeps for fees: all of them, or none, or by a team's own rule some; never more.
FEES = f"""
SELECT shop_order.id, shop_order.currency, shop_order.fee_amount, COALESCE(fees.sum, 0)
FROM shop_order
LEFT JOIN (
    SELECT order_id, sum(amount)::bigint AS sum FROM shop_orderfee GROUP BY order_id
) AS fees ON fees.order_id = shop_order.id
WHERE (shop_order.fee_amount > COALESCE(fees.sum, 0)
       OR (shop_order.fee_amount <> COALESCE(fees.sum, 0)
           AND shop_order.status IN ('awaiting_payment', 'expired', 'cancelled')))
  AND (%(items)s::bigint[] IS NULL OR shop_order.id = {OF_ITEMS})
ORDER BY shop_order.id LIMIT 1000
"""

# Without what a bank took back: that is no refund of the provider.
PAYMENTS = f"""
SELECT payment.id, payment.order_id, payment.intent, payment.state, shop_order.currency,
       payment.amount,
       COALESCE(sum(refund.amount)
                FILTER (WHERE refund.state = 'done' AND refund.reason <> 'dispute'), 0)::bigint,
       COALESCE(sum(refund.amount) FILTER (WHERE refund.state = 'pending'), 0)::bigint
FROM shop_payment AS payment
JOIN shop_order ON shop_order.id = payment.order_id
LEFT JOIN shop_refund AS refund ON refund.payment_id = payment.id
WHERE payment.intent <> '' AND (%(items)s::bigint[] IS NULL OR payment.order_id = {OF_ITEMS})
GROUP BY payment.id, shop_order.id
"""


@dataclass(frozen=True, slots=True)
class Ours:
    """A payment in the shop's database."""

    id: int
    order: int
    intent: str
    state: str
    currency: str
    amount: int
    back: int
    on_the_way: int

    def money(self, amount: int) -> str:
        """Write an amount in this payment's currency."""
        return plain(amount, self.currency)


@dataclass(slots=True)
class Theirs:
    """The same payment in the provider's ledger."""

    order: int = 0
    currency: str = ""
    captured: int = 0
    refunded: int = 0
    reference: str = ""


def unpaid(items: list[int] | None = None) -> list[str]:
    """List orders whose payment differs from their amount."""
    with connection.cursor() as cursor:
        cursor.execute(UNPAID, {"items": items})
        return [
            f"order {pk} is {status} and worth {plain(worth, currency)}, "
            f"but {plain(taken, currency)} was taken and is kept"
            for pk, status, currency, worth, taken in cursor.fetchall()
        ]


def wrong_fees(items: list[int] | None = None) -> list[str]:
    """List orders whose fees do not add up."""
    with connection.cursor() as cursor:
        cursor.execute(FEES, {"items": items})
        return [
            f"order {pk} keeps {plain(kept, currency)} for fees, "
            f"but its fees are {plain(fees, currency)}"
            for pk, currency, kept, fees in cursor.fetchall()
        ]


CONTRADICTIONS = (Discrepancy.Kind.MISMATCH, Discrepancy.Kind.REVERSED)
"""The others are work for an operator."""


def discrepancies(items: list[int] | None = None, *, contradictions: bool) -> list[str]:
    """List what the provider has said and an operator has to decide, oldest first.

    Args:
        items: ids of items, to look only at their orders; None for all.
        contradictions: those that contradict the books; otherwise the others.
    """
    found = Discrepancy.objects.filter(closed=None).order_by("pk")
    if items is not None:
        found = found.filter(payment__order__lines__reservation__item__in=items).distinct()
    chosen = found.exclude(kind__in=CONTRADICTIONS)
    if contradictions:
        chosen = found.filter(kind__in=CONTRADICTIONS)
    return list(chosen.values_list("text", flat=True))


def against_the_provider(items: list[int] | None = None) -> list[str]:
    """List the differences between the shop and the provider.

    The shop keeps running, so the two states differ in time. The shop's state is read before the
    provider's ledger, which must contain it; then again afterwards, when it must contain the
    ledger's entries or be asking for them.

    Raises:
        PaymentUnknown: the provider does not answer.
    """
    before = _ours(items)
    theirs = _theirs()
    if theirs is None:
        return []
    # A dictionary: both directions may find the same problem.
    found = dict.fromkeys(_not_at_the_provider(before, theirs))
    found |= dict.fromkeys(_not_here(_ours(items), theirs, unknown_too=items is None))
    return list(found)


def disputed() -> list[int]:
    """Return orders whose payments the provider has moved and the shop has not recorded.

    Raises:
        PaymentUnknown: the provider does not answer.
    """
    theirs = _theirs() or {}
    return sorted({one.order for one in _ours(None).values() if _knows_more(theirs, one)})


def _not_at_the_provider(ours: Mapping[str, Ours], theirs: Mapping[str, Theirs]) -> list[str]:
    problems = []
    for intent, one in ours.items():
        said = theirs.get(intent, Theirs())
        taken, back = one.money(said.captured), one.money(said.refunded)
        if said.captured and said.currency != one.currency:
            problems.append(
                f"payment {one.id} of order {one.order} is in {one.currency} here, "
                f"and in {said.currency} at the provider"
            )
        if one.state == Payment.State.CAPTURED and said.captured != one.amount:
            problems.append(
                f"payment {one.id} of order {one.order} is captured over "
                f"{one.money(one.amount)} here, and over {taken} at the provider"
            )
        if said.refunded < one.back:
            problems.append(
                f"payment {one.id} of order {one.order}: {one.money(one.back)} went back, says "
                f"the shop, and {back}, says the provider"
            )
    return problems


def _not_here(
    ours: Mapping[str, Ours], theirs: Mapping[str, Theirs], *, unknown_too: bool
) -> list[str]:
    problems = []
    for intent, said in theirs.items():
        one = ours.get(intent)
        if one is None:
            # Another shop may use the same account.
            if unknown_too and not is_foreign(said.reference):
                # The shop stores a payment's number before it asks for the money.
                taken = plain(said.captured, said.currency)
                problems.append(
                    f"the provider took {taken} for order {said.order}, "
                    f"of which the shop knows no payment ({intent})"
                )
        elif _knows_more(theirs, one):
            problems.append(
                f"payment {one.id} of order {one.order} is {one.state} here, "
                f"{one.money(one.back)} back; the provider has taken "
                f"{one.money(said.captured)} and given back {one.money(said.refunded)}"
            )
    return problems


def _knows_more(theirs: Mapping[str, Theirs], one: Ours) -> bool:
    """Return whether the provider moved money that the shop has neither recorded nor requested."""
    said = theirs.get(one.intent, Theirs())
    overlooked = said.captured > 0 and one.state == Payment.State.FAILED
    return overlooked or said.refunded > one.back + one.on_the_way


def _ours(items: list[int] | None) -> dict[str, Ours]:
    with connection.cursor() as cursor:
        cursor.execute(PAYMENTS, {"items": items})
        return {row[2]: Ours(*row) for row in cursor.fetchall()}


def _theirs() -> dict[str, Theirs] | None:
    if (lines := provider().ledger()) is None:
        return None
    found: dict[str, Theirs] = defaultdict(Theirs)
    for line in lines:
        one = found[line.intent]
        one.order, one.currency, one.reference = line.order, line.currency, line.reference
        amount = from_provider(line.amount, line.currency)
        if line.operation == "capture":
            one.captured += amount
        else:
            one.refunded += amount
    return dict(found)
