"""P16: how long orders are held, what expires, and what must not."""

from __future__ import annotations

from collections.abc import Iterator

from loadtest.checker.evidence import Evidence
from loadtest.checker.properties.moment import moment
from loadtest.checker.properties.property import Property
from loadtest.checker.properties.told import untold
from loadtest.checker.verdict import Finding
from loadtest.shop import Level

# Times that must be the same may differ by what a conversion rounds off.
_ROUNDED = 1_000


class Hold(Property):
    """Held for the sale's time, expired then and not before; nothing paid expires."""

    id, name, level = "P16", "hold and expiry", Level.EXPIRY
    asks = "Unpaid orders expired in time, not before, and as a whole; paid ones never did."
    fails = "a hold of the wrong length; half of a cart expired"
    planted = "expired too early"

    def _judge(self, evidence: Evidence) -> Finding:
        if why := untold(evidence):
            return self.unknown(why)
        if not evidence.value("SELECT coalesce(max(clock), 0) FROM snapshot WHERE number = 0"):
            return self.unknown("the final snapshot does not tell the database's time")
        orders = evidence.value("SELECT count(*) FROM opened")
        expired = evidence.value("SELECT count(*) FROM event WHERE name = 'expired'")
        return self.judged(_problems(evidence), f"{orders} orders, {expired} expired in time")


def _problems(evidence: Evidence) -> Iterator[str]:
    yield from _wrong_deadlines(evidence)
    yield from _early_or_never(evidence)
    yield from _impossible_steps(evidence)
    yield from _cancelled_bit_by_bit(evidence)
    yield from _told_otherwise(evidence)
    yield from _split(evidence)


def _wrong_deadlines(evidence: Evidence) -> Iterator[str]:
    """The time to pay is the sale's, and a cart's the shortest of its sales'."""
    for order, time, wanted in evidence.rows(
        """
        SELECT o.id, pay_before - created AS time, min(hold) AS wanted FROM "order" AS o
        JOIN sale ON sale.snapshot = 0 AND sale.id = o.sale AND hold > 0
        WHERE o.snapshot = 0 GROUP BY o.id HAVING abs(time - wanted) > ?
        """,
        _ROUNDED,
    ):
        yield f"order {order} may be paid for {time / 1e6} s, where its sale says {wanted / 1e6} s"
    for order, reservation, deadline, pay_before in evidence.rows(
        """
        SELECT o.id, r.id, deadline, pay_before FROM "order" AS o
        JOIN reservation AS r ON r.snapshot = 0 AND r.id = o.reservation
        WHERE o.snapshot = 0 AND deadline > 0 AND abs(deadline - pay_before) > ?
        """,
        _ROUNDED,
    ):
        yield (
            f"order {order} is to be paid before {moment(pay_before)}, and its reservation "
            f"{reservation} is held until {moment(deadline)}"
        )


def _early_or_never(evidence: Evidence) -> Iterator[str]:
    for order, at, pay_before in evidence.rows(
        """
        SELECT id, entered, pay_before FROM state JOIN opened ON opened.id = order_id
        WHERE event = 'expired' AND entered < pay_before
        """
    ):
        yield (
            f"order {order} expired at {moment(at)}, {(pay_before - at) / 1e6:.3f} s before its "
            f"deadline {moment(pay_before)}"
        )
    # While something was broken, nothing may have been able to expire.
    for order, pay_before, late in evidence.rows(
        """
        SELECT id, pay_before, clock - max(pay_before,
            coalesce((SELECT max("end") / 1000 + skew.high FROM fault, skew), 0)) AS late
        FROM opened JOIN snapshot ON number = 0
        WHERE status = 'awaiting_payment' AND late > ?
        """,
        evidence.expiry_us,
    ):
        yield (
            f"order {order}, to be paid before {moment(pay_before)}, still awaits its payment "
            f"{late / 1e6:.1f} s after that"
        )


def _impossible_steps(evidence: Evidence) -> Iterator[str]:
    for order, event, came_from, before in evidence.rows(
        """
        SELECT order_id, event, came_from, before FROM state
        WHERE event <> '' AND came_from IS NOT before
        """
    ):
        yield f"order {order} was {event} when it was {came_from or 'not there'}, not {before}"
    for order, status, last in evidence.rows(
        """
        SELECT opened.id, opened.status, state.status FROM opened
        JOIN state ON state.order_id = opened.id AND "left" IS NULL
        WHERE opened.status <> state.status
        """
    ):
        yield f"order {order} is {status}, and {last} by its events"


def _cancelled_bit_by_bit(evidence: Evidence) -> Iterator[str]:
    for order, status in evidence.rows(
        """
        SELECT id, status FROM opened WHERE status <> 'cancelled' AND (
            SELECT sum(quantity) FROM sold WHERE sold.order_id = id) = (
            SELECT sum(cancelled) FROM parts WHERE parts.order_id = id)
        """
    ):
        yield f"order {order} is {status}, and all its units were cancelled in parts"


def _told_otherwise(evidence: Evidence) -> Iterator[str]:
    for order, shown, status in evidence.rows(
        """
        SELECT DISTINCT opened.id, shown_status, opened.status FROM call
        JOIN opened ON opened.id = call.order_id
        WHERE shown_status <> '' AND NOT EXISTS (SELECT 1 FROM state
            WHERE state.order_id = opened.id AND state.status = call.shown_status)
        """
    ):
        yield f"order {order} was shown as {shown}, which it never was; it is {status}"


def _split(evidence: Evidence) -> Iterator[str]:
    """The lines of an order are held, confirmed and released together, but for parts."""
    for order, status, sale, state, quantity, returned, parts in evidence.rows(
        """
        SELECT o.id, o.status, o.sale, r.state, r.quantity, r.returned,
               coalesce(parts.units, 0) AS parts
        FROM "order" AS o
        JOIN reservation AS r ON r.snapshot = 0 AND r.id = o.reservation
        LEFT JOIN parts ON parts.order_id = o.id AND parts.sale = o.sale
        WHERE o.snapshot = 0 AND (
            parts > r.quantity
            OR CASE WHEN o.status NOT IN ('awaiting_payment', 'paid', 'fulfilled')
                THEN r.state <> 'released'
            WHEN r.state = 'released' THEN parts <> r.quantity
            ELSE r.state <> CASE o.status WHEN 'awaiting_payment' THEN 'held' ELSE 'confirmed' END
                OR r.returned <> parts END)
        """
    ):
        yield (
            f"order {order} is {status}, and its {quantity} of sale {sale} are {state}, "
            f"{returned} given back, {parts} in parts"
        )
