"""P23: what orders hold against what was paid for them."""

from __future__ import annotations

from loadtest.checker.properties.property import Check, Need, Property
from loadtest.shop import Level


class PaidFor(Property):
    """What an order holds costs what was paid for it."""

    id, name, level = "P23", "cart", Level.CARTS
    needs = Need.BILLS
    asks = "Each order holds exactly what was paid for, also if its cart changed meanwhile."
    fails = "a total that is worked out from another cart than the order's lines (ACIDRain)"
    planted = "order that holds more than was paid for"
    counts = "SELECT count(*) AS bills FROM bill WHERE snapshot = 0"
    good = "{bills} orders hold what was paid for"
    nothing = "the books show no bill"
    checks = (
        Check(
            "order {order}: {paid} was paid, and what it holds costs {worth}",
            """
            SELECT order_id AS "order", paid, worth FROM bill
            WHERE snapshot = 0 AND paid <> worth
            """,
        ),
    )
