"""P17, P22 and P23: a cart bought as a whole, vouchers within their limit, and what was paid."""

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


class VoucherLimit(Property):
    """No more orders use a voucher than may."""

    id, name, level = "P22", "voucher", Level.VOUCHERS
    asks = "No voucher was used more often than allowed."
    fails = "counting the uses before the order is written (ACIDRain)"
    planted = "voucher used once too often"
    counts = "SELECT sum(uses) AS uses FROM voucher WHERE snapshot = 0"
    good = "{uses} uses, none beyond its limit"
    nothing = "no voucher was used"
    checks = (
        Check(
            "voucher {id} may be used {limit} times and is used by {uses} orders",
            'SELECT id, "limit", uses FROM voucher WHERE snapshot = 0 AND uses > "limit"',
        ),
    )


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
