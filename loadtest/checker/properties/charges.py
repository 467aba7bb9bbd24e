"""P11: the payment provider's own ledger."""

from __future__ import annotations

from loadtest.checker.evidence import Evidence
from loadtest.checker.properties.property import Check, Property
from loadtest.shop import Level

_CHARGES = """
    SELECT p.order_id AS "order", sum(operation = 'capture') AS captures,
        coalesce(sum(p.amount) FILTER (WHERE operation = 'capture'), 0) AS captured,
        coalesce(sum(p.amount) FILTER (WHERE operation = 'refund'), 0) AS refunded,
        (SELECT sum(o.amount) FROM "order" AS o
         WHERE o.snapshot = 0 AND o.id = p.order_id) AS price
    FROM payment AS p GROUP BY p.order_id
"""


class AtMostOneCharge(Property):
    """At most one capture an order, none without one, and no more refunded than captured.

    Nor is anything paid that was not captured, the money of an order kept that has ended, or an
    order said to wait for money that is back.
    """

    id, name, level = "P11", "at most one charge", Level.PAY
    asks = "By the payment provider's ledger, no buyer was charged twice or refunded too much."
    fails = "retried payments; two refunds at once"
    planted = "charged twice"
    counts = "SELECT count(*) AS captures FROM payment WHERE operation = 'capture'"
    good = "{captures} captures, at most one per order"
    checks = (
        Check(
            "order {order} was charged {captured} and is not there",
            f"{_CHARGES} HAVING price IS NULL",
        ),
        Check(
            "order {order} of {price}: {captures} captures of {captured} together, {refunded} "
            "refunded",
            f"""
            {_CHARGES} HAVING price IS NOT NULL
                AND (captures > 1 OR refunded > captured OR captured > price)
            """,
        ),
        Check(
            "order {order} of {price} is {state}, and {what}",
            """
            SELECT "order", price, state,
                   iif(kept, kept || ' of it is kept', 'nothing of it is with the shop') AS what
            FROM (
                SELECT id AS "order", status AS state, total AS price, paid, coalesce(
                    (SELECT sum(CASE operation WHEN 'capture' THEN p.amount ELSE -p.amount END)
                     FROM payment AS p WHERE p.order_id = opened.id), 0) AS kept
                FROM opened
            )
            WHERE (paid AND price > 0 AND kept = 0) OR (NOT paid AND kept > 0)
            """,
        ),
    )

    def missing(self, evidence: Evidence) -> str:
        """Ask for the ledger, and for what the statuses of orders mean."""
        if not evidence.has_ledger:
            return "there is no ledger of the payment provider"
        return evidence.unexplained()
