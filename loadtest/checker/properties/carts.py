"""P17: a cart is bought as a whole or not at all."""

from __future__ import annotations

from loadtest.checker.properties.property import Check, Need, Property
from loadtest.shop import Level


class AllOrNothing(Property):
    """Of the lines of a cart none has a reservation, or all have one, in one order."""

    id, name, level = "P17", "all or nothing", Level.CARTS
    needs = Need.CARTS
    asks = "Each cart was bought as a whole, in one order, or not at all."
    fails = "a cart that opens part of its lines"
    planted = "part of a cart opened"
    counts = "SELECT count(DISTINCT cart) AS carts FROM call WHERE cart <> ''"
    good = "{carts} carts, each bought as a whole or not at all"
    nothing = "nobody bought a cart"
    checks = (
        Check(
            "cart {cart} of {lines} lines: {reserved} are reserved, and {ordered} are in {orders} "
            "orders ({first})",
            """
            WITH line AS (SELECT DISTINCT cart, key FROM call WHERE op = 'order' AND cart <> '')
            SELECT cart, count(*) AS lines, count(r.id) AS reserved, count(o.id) AS ordered,
                   count(DISTINCT o.id) AS orders, min(o.id) AS first
            FROM line
            LEFT JOIN reservation AS r ON r.snapshot = 0 AND r.key = line.key
            LEFT JOIN "order" AS o ON o.snapshot = 0 AND o.key = line.key
            GROUP BY cart HAVING reserved NOT IN (0, lines) OR ordered NOT IN (0, lines)
                OR ordered <> reserved OR orders > 1
                OR (orders = 1
                    AND lines <> (SELECT opened.lines FROM opened WHERE opened.id = first))
            """,
        ),
    )
