"""P15: nothing is sold outside a sale's window, or while it is paused."""

from __future__ import annotations

from collections.abc import Iterator

from loadtest.checker.evidence import Evidence
from loadtest.checker.properties.moment import moment
from loadtest.checker.properties.property import Property
from loadtest.checker.verdict import Finding
from loadtest.shop import Level

# What an order's time may differ from that of its request: the clocks are translated, and a
# request's transaction begins when it is served.
_CLOCKS = 2_000_000


class Window(Property):
    """Every order was opened in an open window of its sale, by the database's clock."""

    id, name, level = "P15", "window and pause", Level.WINDOWS
    asks = "Nothing was sold before a sale began, after it ended, or while it was paused."
    fails = "a window that is not checked in the transaction"
    planted = "sold while paused"

    def _judge(self, evidence: Evidence) -> Finding:
        if evidence.value("SELECT count(*) FROM sold WHERE created = 0"):
            return self.unknown("the snapshot does not tell when orders were opened")
        for (sale,) in evidence.rows(
            "SELECT DISTINCT sale FROM sold WHERE sale NOT IN (SELECT sale FROM terms)"
        ):
            return self.unknown(f"nothing tells when sale {sale} was open")
        sales, changes = next(evidence.rows("SELECT count(DISTINCT sale), count(*) FROM terms"))
        if not sales:
            return self.unknown("nothing tells when a sale was open")
        lines = evidence.value("SELECT count(*) FROM sold")
        good = f"{lines} lines of {sales} sales, all in open windows; {changes - sales} changes"
        return self.judged(_outside(evidence), good)


def _outside(evidence: Evidence) -> Iterator[str]:
    for order, sale, created, starts_at, ends_at, paused in evidence.rows(
        """
        SELECT order_id, sold.sale, created, starts_at, ends_at, paused FROM sold
        JOIN possible ON possible.sale = sold.sale AND since <= latest AND until >= created
        WHERE NOT EXISTS (
            SELECT 1 FROM possible AS open WHERE open.sale = sold.sale AND open.since <= latest
                AND open.until >= created AND NOT open.paused AND open.starts_at <= created
                AND created < open.ends_at)
        GROUP BY order_id, sold.sale
        """
    ):
        state = "paused" if paused else f"open from {moment(starts_at)} to {moment(ends_at)}"
        yield f"order {order} was opened at {moment(created)}, when sale {sale} was {state}"
    for order, created, earliest, latest in evidence.rows(
        """
        SELECT id, created, purchase.start / 1000 + skew.low AS earliest,
               purchase.answered / 1000 + skew.high AS latest
        FROM opened CROSS JOIN skew JOIN purchase ON purchase.order_id = opened.id
        WHERE created < earliest - ?1 OR created > latest + ?1
        """,
        _CLOCKS,
    ):
        yield (
            f"order {order} says that it was opened at {moment(created)}; it was asked for at "
            f"{moment(earliest)} and promised at {moment(latest)}"
        )
