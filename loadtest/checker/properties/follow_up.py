"""P10: what had to happen after the commit."""

from __future__ import annotations

from collections.abc import Iterator

from loadtest.checker.evidence import Evidence
from loadtest.checker.properties.property import Property
from loadtest.checker.verdict import Finding
from loadtest.shop import Level


class FollowUpComplete(Property):
    """Each follow-up took effect exactly once per order, and no message is left."""

    id, name, level = "P10", "follow-up complete", Level.MAILS
    asks = "The follow-up of each order happened exactly once."
    fails = "messages lost with the broker, mails sent twice"
    planted = "follow up missing"

    def _judge(self, evidence: Evidence) -> Finding:
        if not evidence.follow_up:
            return self.unknown("the snapshot names no follow-up")
        orders = evidence.value('SELECT count(DISTINCT id) FROM "order" WHERE snapshot = 0')
        good = f"{orders} orders, each followed up exactly once ({', '.join(evidence.follow_up)})"
        return self.judged(_problems(evidence), good)


def _problems(evidence: Evidence) -> Iterator[str]:
    for name in evidence.follow_up:
        for order, times in evidence.rows(
            """
            SELECT o.id, coalesce(sum(count), 0) AS times
            FROM (SELECT DISTINCT id FROM "order" WHERE snapshot = 0) AS o
            LEFT JOIN effect ON effect.snapshot = 0 AND order_id = o.id AND name = ?
            GROUP BY o.id HAVING times <> 1
            """,
            name,
        ):
            yield f"order {order}: {name} took effect {times} times"
    for order, name in evidence.rows(
        """
        SELECT order_id, name FROM effect WHERE snapshot = 0
        AND NOT EXISTS (SELECT 1 FROM "order" AS o WHERE o.snapshot = 0 AND o.id = order_id)
        """
    ):
        yield f"{name} of order {order}, which is not there"
    for message, topic in evidence.rows(
        "SELECT id, topic FROM outbox WHERE snapshot = 0 AND NOT done"
    ):
        yield f"message {message} ({topic}) is not done"
