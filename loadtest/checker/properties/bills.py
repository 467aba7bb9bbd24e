"""P23: what orders hold against what was paid for them."""

from __future__ import annotations

from collections.abc import Iterator

from loadtest.checker.evidence import Evidence
from loadtest.checker.properties.property import Need, Property
from loadtest.checker.verdict import Finding
from loadtest.shop import Level


class PaidFor(Property):
    """What an order holds costs what was paid for it."""

    id, name, level = "P23", "cart", Level.CARTS
    needs = Need.BILLS
    asks = "Each order holds exactly what was paid for, also if its cart changed meanwhile."
    fails = "a total that is worked out from another cart than the order's lines (ACIDRain)"
    planted = "order that holds more than was paid for"

    def _judge(self, evidence: Evidence) -> Finding:
        bills = evidence.value("SELECT count(*) FROM bill WHERE snapshot = 0")
        if not bills:
            return self.unknown("the books show no bill")
        return self.judged(_wrong(evidence), f"{bills} orders hold what was paid for")


def _wrong(evidence: Evidence) -> Iterator[str]:
    for order, paid, worth in evidence.rows(
        "SELECT order_id, paid, worth FROM bill WHERE snapshot = 0 AND paid <> worth"
    ):
        yield f"order {order}: {paid} was paid, and what it holds costs {worth}"
