"""P10: what had to happen after the commit."""

from __future__ import annotations

from loadtest.checker.evidence import Evidence
from loadtest.checker.properties.property import Check, Property
from loadtest.shop import Level


class FollowUpComplete(Property):
    """Each follow-up took effect exactly once per order, and no message is left."""

    id, name, level = "P10", "follow-up complete", Level.MAILS
    asks = "The follow-up of each order happened exactly once."
    fails = "messages lost with the broker, mails sent twice"
    planted = "follow up missing"
    counts = """
        SELECT (SELECT count(*) FROM opened) AS orders,
               (SELECT group_concat(value, ', ') FROM json_each(:follow_up)) AS names
    """
    good = "{orders} orders, each followed up exactly once ({names})"
    checks = (
        Check(
            "order {order}: {name} took effect {times} times",
            """
            SELECT o.id AS "order", wanted.value AS name, coalesce(sum(count), 0) AS times
            FROM opened AS o CROSS JOIN json_each(:follow_up) AS wanted
            LEFT JOIN effect ON effect.snapshot = 0 AND effect.order_id = o.id
                AND effect.name = wanted.value
            GROUP BY wanted.value, o.id HAVING times <> 1
            """,
        ),
        Check(
            "{name} of order {order}, which is not there",
            """
            SELECT order_id AS "order", name FROM effect WHERE snapshot = 0
            AND NOT EXISTS (SELECT 1 FROM opened WHERE opened.id = order_id)
            """,
        ),
        Check(
            "message {id} ({topic}) is not done",
            "SELECT id, topic FROM outbox WHERE snapshot = 0 AND NOT done",
        ),
    )

    def missing(self, evidence: Evidence) -> str:
        """Ask for the follow-ups that each order must have."""
        return "" if evidence.follow_up else "the snapshot names no follow-up"
