"""P15: nothing is sold outside a sale's window, or while it is paused."""

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
            AND open.until >= created AND NOT open.paused AND open.starts_at <= created
            AND created < open.ends_at)
    GROUP BY order_id, sold.sale
"""


class Window(Property):
    """Every order was opened in an open window of its sale, by the database's clock."""

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
