"""P3, P4, P5, P17, P18, P22, P23: each order is one buyer's, was promised, whole and paid for."""

from __future__ import annotations

from loadtest.checker.properties.property import Check, Need, Property
from loadtest.shop import Level


def _parts(outcomes: str) -> str:
    """Parts of an order, of one size: asked for under different keys, and given back."""
    return f"""(
        SELECT order_id AS "order", op, quantity, sum(asked) AS asked, sum(found) AS found FROM (
            SELECT order_id, op, quantity, count(DISTINCT key) AS asked, 0 AS found FROM call
            WHERE op IN ('cancel', 'refund') AND quantity > 0 AND {outcomes}
            GROUP BY order_id, op, quantity
            UNION ALL
            SELECT order_id, op, quantity, 0, count(*) FROM happened
            WHERE op IN ('cancel', 'refund') AND quantity > 0 GROUP BY order_id, op, quantity
        ) GROUP BY order_id, op, quantity
    )"""


class NoLostOrder(Property):
    """Every key that was answered ok has its order, or its part, as it was asked for."""

    id, name, level = "P3", "no lost order", Level.STOCK
    asks = "Every confirmed order, and every part that was given back, is in the database."
    fails = "answering before the commit; a database that loses commits"
    planted = "order lost"
    counts = "SELECT count(*) AS promised FROM purchase WHERE outcome = 'ok'"
    good = "{promised} promised orders, each of them there"
    checks = (
        Check(
            "order {order} was promised for key {key} and is not there",
            """
            SELECT key, order_id AS "order" FROM purchase WHERE outcome = 'ok' AND NOT EXISTS (
                SELECT 1 FROM "order" AS o WHERE o.snapshot = 0 AND o.key = purchase.key)
            """,
            by_answers=True,
        ),
        Check(
            "key {key} asked for {quantity} of sale {sale}, order {order} is for {found} of sale "
            "{found_sale}",
            """
            SELECT purchase.key, purchase.quantity, purchase.sale, o.id AS "order",
                o.quantity AS found, o.sale AS found_sale
            FROM purchase JOIN "order" AS o ON o.snapshot = 0 AND o.key = purchase.key
            WHERE outcome = 'ok'
                AND (o.quantity <> purchase.quantity OR o.sale IS NOT purchase.sale)
            """,
            by_answers=True,
        ),
        Check(
            "order {order}: {asked} different parts of {quantity} were answered ok ({op}), and "
            "{found} were given back",
            f"""SELECT * FROM {_parts("outcome = 'ok'")} WHERE asked > found""",
        ),
        # A shop whose events are known is asked for each of them elsewhere.
        Check(
            "order {order} was answered as cancelled, and still holds {holds} of item {item}",
            """
            SELECT call.order_id AS "order", r.item, r.quantity - r.returned AS holds,
                min(call.rowid) AS calls
            FROM call
            JOIN "order" AS o ON o.snapshot = 0 AND o.id = call.order_id
            JOIN reservation AS r ON r.snapshot = 0 AND r.id = o.reservation
            WHERE call.op = 'cancel' AND call.outcome = 'ok' AND call.quantity = 0
                AND r.state <> 'released' AND r.quantity > r.returned
                AND NOT EXISTS (SELECT 1 FROM event) AND NOT EXISTS (SELECT 1 FROM status)
            GROUP BY r.id
            """,
        ),
    )


class NoPhantomOrder(Property):
    """Every order's key was sent and not refused; so was that of everything held."""

    id, name, level = "P4", "no phantom order", Level.STOCK
    asks = "No buyer has an order that they did not request or that was refused."
    fails = "answering “failed” when the outcome is unknown"
    planted = "order of a refused key"
    counts = 'SELECT count(*) AS orders FROM "order" WHERE snapshot = 0'
    good = "{orders} orders, each of them asked for"
    checks = (
        Check(
            "{what} {id}: its key {key} was {told}",
            """
            SELECT what, found.id, found.key, iif(outcome = 'fail', 'refused', 'never sent') AS told
            FROM (
                SELECT 'order' AS what, id, key FROM "order" WHERE snapshot = 0 UNION ALL
                SELECT 'reservation', id, key FROM reservation
                WHERE snapshot = 0 AND state <> 'released'
            ) AS found
            LEFT JOIN purchase ON purchase.key = found.key
            WHERE purchase.outcome IS NULL OR purchase.outcome = 'fail'
            """,
        ),
        Check(
            "reservation {id} of key {key} is held for no order",
            """
            SELECT id, key FROM reservation AS r WHERE snapshot = 0 AND state <> 'released'
            AND NOT EXISTS (SELECT 1 FROM "order" AS o WHERE o.snapshot = 0 AND o.key = r.key)
            """,
        ),
    )


def _refused_after(those: str, *, certain: bool) -> Check:
    """A confirmation is final: the same purchase, sent again, is answered with the same order."""
    return Check(
        "key {key} was refused ({code}) after it had been answered with order {promised}",
        f"""
        SELECT call.key, purchase.order_id AS promised, call.code,
               min(promise.rowid) || ',' || call.rowid AS calls
        FROM call JOIN purchase ON purchase.key = call.key
        JOIN call AS promise ON promise.key = call.key AND promise.op = 'order'
            AND promise.outcome = 'ok' AND promise."end" = purchase.answered
        WHERE call.op = 'order' AND call.outcome = 'fail'
            AND call.status IN (403, 404, 409, 410, 422) AND call.start > purchase.answered
            AND {those}
        GROUP BY call.rowid
        """,
        certain,
    )


def _more_than_one(table: str) -> Check:
    return Check(
        f"key {{key}} has {{number}} {table}s",
        f"""
        SELECT key, count(*) AS number FROM "{table}" WHERE snapshot = 0
        GROUP BY key HAVING count(*) > 1
        """,
    )


class NoDuplicate(Property):
    """One order, part and answer per key, one account per buyer, and none above the limit.

    The shop may call a buyer by another name, but always by the same one. Whether a key was refused
    for another purchase is not sure before all of its are known.
    """

    id, name, level = "P5", "no duplicate", Level.REPEATS
    asks = "Repeats with the same key gave one order or part, and no buyer got more than the limit."
    fails = "retries and double clicks that buy twice"
    planted = "second order for a key"
    counts = "SELECT coalesce(sum(oks - 1), 0) AS replays FROM purchase WHERE oks > 1"
    good = "{replays} repeated answers, all the same"
    checks = (
        Check(
            "key {key} was answered with order {one} and with order {other}",
            """
            SELECT purchase.key, purchase.order_id AS one, other_order_id AS other,
                min(call.rowid) FILTER (WHERE call.order_id = purchase.order_id) || ','
                || min(call.rowid) FILTER (WHERE call.order_id = other_order_id) AS calls
            FROM purchase
            JOIN call ON call.key = purchase.key AND op = 'order' AND call.outcome = 'ok'
            WHERE purchase.order_id <> other_order_id GROUP BY purchase.key
            """,
            certain=True,
        ),
        _refused_after("call.code <> 'idempotency_key_reused'", certain=True),
        _more_than_one("order"),
        _more_than_one("reservation"),
        Check(
            "reservation {id} has {number} orders",
            """
            SELECT reservation AS id, count(*) AS number FROM "order" WHERE snapshot = 0
            GROUP BY reservation HAVING count(*) > 1
            """,
        ),
        Check(
            "key {key} was answered with order {promised} and has order {found}",
            """
            SELECT purchase.key, purchase.order_id AS promised, o.id AS found FROM purchase
            JOIN "order" AS o ON o.snapshot = 0 AND o.key = purchase.key
            WHERE purchase.order_id <> o.id
            """,
        ),
        _refused_after(
            """call.code = 'idempotency_key_reused'
            AND call.quantity = purchase.quantity AND call.sale = purchase.sale""",
            certain=False,
        ),
        Check(
            "order {order}: {found} parts of {quantity} were given back ({op}), and asked for "
            "under {asked} different keys",
            f"""SELECT * FROM {_parts("outcome <> 'fail'")} WHERE found > asked""",
        ),
        Check(
            "orders of buyer {buyer} belong to {one} and to {other}",
            """
            SELECT client AS buyer, min(shop) AS one, max(shop) AS other FROM pair
            GROUP BY client HAVING count(*) > 1
            """,
        ),
        Check(
            "orders of {buyer} and of {other} belong to the same buyer {shop}",
            """
            SELECT shop, min(client) AS buyer, max(client) AS other FROM pair
            GROUP BY shop HAVING count(*) > 1
            """,
        ),
        Check(
            "buyer {account} has {quantity} of sale {sale}, whose limit is {limit}",
            """
            SELECT o.buyer AS account, sale.id AS sale, sum(r.quantity - r.returned) AS quantity,
                   sale."limit", max(o.key) AS key
            FROM "order" AS o
            JOIN reservation AS r ON r.snapshot = o.snapshot AND r.id = o.reservation
                AND r.state <> 'released'
            JOIN sale ON sale.snapshot = o.snapshot AND sale.id = o.sale AND sale."limit" > 0
            GROUP BY o.snapshot, o.buyer, sale.id
            HAVING sum(r.quantity - r.returned) > sale."limit"
            """,
            by_answers=True,
        ),
    )


# What a buyer can do with an order, or see of it.
_OPS = ("order", "read", "page", "payment", "cancel", "refund", "mail")

# No order, too many requests, no connection.
_BEFORE_IT = (404, 429, 0)

# Requests for the orders of others.
_STRANGERS = f"""
    FROM call JOIN owner ON owner.order_id = call.order_id
    WHERE op IN {_OPS} AND call.buyer <> owner.buyer
"""


class Privacy(Property):
    """Nobody was shown another buyer's order or changed it, or was told how it stands.

    To a stranger an order does not exist: any other answer than 404 has told of it. Answers that
    are given before an order is looked up are no answers about it.
    """

    id, name, level = "P18", "privacy", Level.STOCK
    needs = Need.PEEPERS
    asks = "No buyer saw or changed another buyer's order, or a link to one."
    fails = "a look-up without the buyer"
    planted = "other buyers order readable"
    counts = f"SELECT count(*) AS attempts {_STRANGERS} AND outcome <> 'info'"
    good = "{attempts} requests for other buyers' orders, all refused"
    nothing = "nobody asked for another buyer's order"
    checks = (
        Check(
            "{buyer} was answered {answer} ({op}) about order {order}, which is {owner}'s",
            f"""
            SELECT call.buyer, op, rtrim(status || ' ' || code) AS answer,
                   call.order_id AS "order", owner.buyer AS owner, call.rowid AS calls
            {_STRANGERS} AND (outcome = 'ok'
                OR (outcome = 'fail' AND status NOT IN {_BEFORE_IT} AND code <> 'busy'))
            """,
            by_answers=True,
        ),
        Check(
            "{buyer} was shown a link ({op}) to order {order}, which is {owner}'s",
            """
            SELECT DISTINCT op, link.buyer, link.order_id AS "order", owner.buyer AS owner
            FROM link JOIN owner ON owner.order_id = link.order_id
            WHERE link.buyer <> owner.buyer
            """,
            by_answers=True,
        ),
    )


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
    good = "{bills} orders, each with what was paid for"
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
