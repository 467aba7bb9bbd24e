"""P11: the payment provider's own ledger."""

from __future__ import annotations

from collections.abc import Iterator

from loadtest.checker.evidence import Evidence
from loadtest.checker.properties.property import Property
from loadtest.checker.verdict import Finding
from loadtest.shop import Level


class AtMostOneCharge(Property):
    """At most one capture an order, none without one, and no more refunded than captured.

    Nor is anything paid that was not captured, the money of an order kept that has ended, or an
    order said to wait for money that is back.
    """

    id, name, level = "P11", "at most one charge", Level.PAY
    asks = "By the payment provider's ledger, no buyer was charged twice or refunded too much."
    fails = "retried payments; two refunds at once"
    planted = "charged twice"

    def _judge(self, evidence: Evidence) -> Finding:
        if not evidence.has_ledger:
            return self.unknown("there is no ledger of the payment provider")
        captures = evidence.value("SELECT count(*) FROM payment WHERE operation = 'capture'")
        return self.judged(_wrong_charges(evidence), f"{captures} captures, at most one per order")


def _wrong_charges(evidence: Evidence) -> Iterator[str]:
    for order, captures, captured, refunded, price in evidence.rows(
        """
        SELECT p.order_id, sum(operation = 'capture') AS captures,
            coalesce(sum(p.amount) FILTER (WHERE operation = 'capture'), 0) AS captured,
            coalesce(sum(p.amount) FILTER (WHERE operation = 'refund'), 0) AS refunded,
            (SELECT sum(o.amount) FROM "order" AS o
             WHERE o.snapshot = 0 AND o.id = p.order_id) AS price
        FROM payment AS p GROUP BY p.order_id
        HAVING captures > 1 OR refunded > captured OR price IS NULL OR captured > price
        """
    ):
        if price is None:
            yield f"order {order} was charged {captured} and is not there"
        else:
            yield (
                f"order {order} of {price}: {captures} captures of {captured} together, "
                f"{refunded} refunded"
            )
    yield from _kept_or_missing(evidence)


def _kept_or_missing(evidence: Evidence) -> Iterator[str]:
    for order, status, price, kept in evidence.rows(
        """
        SELECT o.id, o.status, sum(o.amount) AS price, coalesce(
            (SELECT sum(CASE operation WHEN 'capture' THEN p.amount ELSE -p.amount END)
             FROM payment AS p WHERE p.order_id = o.id), 0) AS kept
        FROM "order" AS o WHERE o.snapshot = 0 GROUP BY o.id
        HAVING (o.status IN ('paid', 'fulfilled') AND price > 0 AND kept = 0)
            OR (o.status = 'refund_pending' AND price > 0 AND kept = 0)
            OR (o.status IN ('awaiting_payment', 'expired', 'cancelled', 'refunded') AND kept > 0)
        """
    ):
        what = "nothing of it is with the shop" if kept == 0 else f"{kept} of it is kept"
        yield f"order {order} of {price} is {status}, and {what}"
