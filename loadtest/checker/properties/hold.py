"""P15 and P16: when a sale is open, how long orders are held, what expires, and what must not."""

from __future__ import annotations

from loadtest.checker.evidence import Evidence
from loadtest.checker.properties.property import Check, Property
from loadtest.shop import Level

# What an order's time may differ from that of its request: the clocks are translated, and a
# request's transaction begins when it is served.
_CLOCKS = 2_000_000

# The lines that were sold while no possible terms let their sale be open.
_OUTSIDE = """
    FROM sold JOIN possible ON possible.sale = sold.sale AND since <= latest AND until >= created
    WHERE NOT EXISTS (
        SELECT 1 FROM possible AS open WHERE open.sale = sold.sale AND open.since <= latest
            AND open.until >= created AND NOT open.paused AND created < open.ends_at
            AND min(open.starts_at, coalesce(opened_early, open.starts_at)) <= created)
    GROUP BY order_id, sold.sale
"""


class Window(Property):
    """Every order was opened in an open window of its sale, by the database's clock. For those who
    may buy earlier, the window begins earlier.
    """

    id, name, level = "P15", "window and pause", Level.WINDOWS
    asks = "Nothing was sold before a sale began, after it ended, or while it was paused."
    fails = "a window that is not checked in the transaction"
    planted = "sold while paused"
    counts = """
        SELECT count(DISTINCT sale) AS sales, count(*) - count(DISTINCT sale) AS changes,
               (SELECT count(*) FROM sold) AS lines
        FROM terms
    """
    good = "{lines} lines of {sales} sales, all in open windows; {changes} changes"
    nothing = "nothing tells when a sale was open"
    checks = (
        Check(
            "order {order} was opened at {created!t}, when sale {sale} was paused",
            f'SELECT order_id AS "order", sold.sale, created, paused {_OUTSIDE} HAVING paused',
        ),
        Check(
            "order {order} was opened at {created!t}, when sale {sale} was open from "
            "{starts_at!t} to {ends_at!t}",
            f"""
            SELECT order_id AS "order", sold.sale, created, starts_at, ends_at, paused {_OUTSIDE}
            HAVING NOT paused
            """,
        ),
        Check(
            "order {order} says that it was opened at {created!t}; it was asked for at "
            "{earliest!t} and promised at {latest!t}",
            f"""
            SELECT opened.id AS "order", created, purchase.start / 1000 + skew.low AS earliest,
                   purchase.answered / 1000 + skew.high AS latest
            FROM opened CROSS JOIN skew JOIN purchase ON purchase.order_id = opened.id
            WHERE created < earliest - {_CLOCKS} OR created > latest + {_CLOCKS}
            """,
        ),
    )

    def missing(self, evidence: Evidence) -> str:
        """Ask for the time of each order and the terms of each sale."""
        if evidence.value("SELECT count(*) FROM sold WHERE created = 0"):
            return "the snapshot does not tell when orders were opened"
        for (sale,) in evidence.rows(
            "SELECT DISTINCT sale FROM sold WHERE sale NOT IN (SELECT sale FROM terms)"
        ):
            return f"nothing tells when sale {sale} was open"
        return ""


# Times that must be the same may differ by what a conversion rounds off.
_ROUNDED = 1_000


class Hold(Property):
    """Held for the sale's time, expired then and not before; nothing paid expires.

    The time to pay is the sale's, and a cart's the shortest of its sales'. While something was
    broken, nothing may have been able to expire. The lines of an order are held, confirmed and
    released together, but for parts.
    """

    id, name, level = "P16", "hold and expiry", Level.EXPIRY
    asks = "Unpaid orders expired in time, not before, and as a whole; paid ones never did."
    fails = "a hold of the wrong length; half of a cart expired"
    planted = "expired too early"
    counts = """
        SELECT (SELECT count(*) FROM opened) AS orders,
               (SELECT count(*) FROM happened WHERE op = 'expire') + (
                   SELECT count(*) FROM reservation WHERE snapshot = 0 AND state = 'released'
                   AND deadline > 0 AND NOT EXISTS (SELECT 1 FROM status)) AS expired
    """
    good = "{orders} orders, {expired} expired in time"
    checks = (
        Check(
            "order {order} may be paid for {time} s, where its sale says {wanted} s, and at most "
            "{more} s more for the buyer's part of a payment",
            f"""
            SELECT o.id AS "order", (pay_before - created) / 1e6 AS time, min(hold) / 1e6 AS wanted,
                   min(action_hold) / 1e6 AS more
            FROM "order" AS o JOIN sale ON sale.snapshot = 0 AND sale.id = o.sale AND hold > 0
            WHERE o.snapshot = 0
            GROUP BY o.id HAVING pay_before - created NOT BETWEEN
                min(hold) - {_ROUNDED} AND min(hold) + min(action_hold) + {_ROUNDED}
            """,
        ),
        Check(
            "order {order} is to be paid before {pay_before!t}, and its reservation {reservation} "
            "is held until {deadline!t}",
            f"""
            SELECT o.id AS "order", r.id AS reservation, deadline, pay_before FROM "order" AS o
            JOIN reservation AS r ON r.snapshot = 0 AND r.id = o.reservation
            WHERE o.snapshot = 0 AND deadline > 0 AND abs(deadline - pay_before) > {_ROUNDED}
            """,
        ),
        Check(
            "order {order} expired at {entered!t}, {early:.3f} s before its deadline "
            "{pay_before!t}",
            """
            SELECT id AS "order", entered, pay_before, (pay_before - entered) / 1e6 AS early
            FROM state JOIN opened ON opened.id = order_id
            WHERE op = 'expire' AND entered < pay_before
            """,
        ),
        Check(
            "order {order}, to be paid before {pay_before!t}, still awaits its payment "
            "{seconds:.1f} s after that",
            """
            SELECT id AS "order", pay_before, late / 1e6 AS seconds FROM (
                SELECT id, pay_before, clock - max(pay_before,
                    coalesce((SELECT max("end") / 1000 + skew.high FROM fault, skew), 0)) AS late
                FROM opened JOIN snapshot ON number = 0 WHERE stock = 'held'
            ) WHERE late > :expiry_us
            """,
        ),
        # A shop whose statuses are not known, where orders only hold units or do not.
        Check(
            "order {order}, to be paid before {deadline!t}, still holds {units} of item {item} "
            "{seconds:.1f} s after that",
            """
            SELECT o.id AS "order", deadline, r.item, r.quantity - r.returned AS units,
                   (clock - deadline) / 1e6 AS seconds
            FROM reservation AS r JOIN snapshot ON number = 0
            JOIN "order" AS o ON o.snapshot = 0 AND o.reservation = r.id
            WHERE r.snapshot = 0 AND r.state <> 'released' AND deadline > 0
                AND clock - deadline > :expiry_us AND NOT EXISTS (SELECT 1 FROM status)
            """,
        ),
        Check(
            "order {order} was {event} when it was {came_from}, not {before}",
            """
            SELECT order_id AS "order", event, coalesce(came_from, 'not there') AS came_from, before
            FROM state WHERE event <> '' AND state.came_from IS NOT before
            """,
        ),
        Check(
            "order {order} is {state}, and {last} by its events",
            """
            SELECT opened.id AS "order", opened.status AS state, state.status AS last FROM opened
            JOIN state ON state.order_id = opened.id AND "left" IS NULL
            WHERE opened.status <> state.status
            """,
        ),
        Check(
            "order {order} is {state}, and all its units were cancelled in parts",
            """
            SELECT id AS "order", status AS state FROM opened
            WHERE status NOT IN (SELECT after FROM step WHERE op = 'cancel') AND (
                SELECT sum(quantity) FROM sold WHERE sold.order_id = id) = (
                SELECT sum(cancelled) FROM parts WHERE parts.order_id = id)
            """,
        ),
        Check(
            "order {order} was shown as {shown}, which it never was; it is {state}",
            """
            SELECT opened.id AS "order", shown_status AS shown, opened.status AS state,
                   max(call.rowid) AS calls
            FROM call JOIN opened ON opened.id = call.order_id
            WHERE shown_status <> '' AND NOT EXISTS (SELECT 1 FROM state
                WHERE state.order_id = opened.id AND state.status = call.shown_status)
            GROUP BY opened.id, shown_status
            """,
        ),
        Check(
            "order {order} is {state}, and its {quantity} of sale {sale} are {held}, {returned} "
            "given back, {parts} in parts",
            """
            SELECT o.id AS "order", o.status AS state, o.sale, r.state AS held, r.quantity,
                   r.returned, coalesce(parts.units, 0) AS parts
            FROM "order" AS o JOIN opened ON opened.id = o.id
            JOIN reservation AS r ON r.snapshot = 0 AND r.id = o.reservation
            LEFT JOIN parts ON parts.order_id = o.id AND parts.sale = o.sale
            WHERE o.snapshot = 0 AND stock IS NOT NULL AND (
                coalesce(parts.units, 0) > r.quantity
                OR CASE WHEN stock = 'released' THEN r.state <> 'released'
                WHEN r.state = 'released' THEN coalesce(parts.units, 0) <> r.quantity
                ELSE r.state <> stock OR r.returned <> coalesce(parts.units, 0) END)
            """,
        ),
    )

    def missing(self, evidence: Evidence) -> str:
        """Ask for what orders went through, and for the database's time."""
        clocks = "SELECT coalesce(max(clock), 0) FROM snapshot WHERE number = 0"
        known = evidence.value("SELECT count(*) FROM status")
        timed = evidence.value("SELECT count(*) FROM opened WHERE pay_before > 0")
        if not known and timed:
            return ""
        if not evidence.untold() and not evidence.value(clocks):
            return "the final snapshot does not tell the database's time"
        return evidence.untold()
