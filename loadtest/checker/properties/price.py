"""P14: every amount, to the minor unit: of lines, parts, orders, answers, captures and refunds."""

from __future__ import annotations

from collections.abc import Iterator

from loadtest.checker.evidence import Evidence
from loadtest.checker.properties.moment import moment
from loadtest.checker.properties.property import Property
from loadtest.checker.properties.told import untold
from loadtest.checker.verdict import PASS, Finding
from loadtest.shop import Level

# A process shows a sale as it was a second ago (µs).
_REMEMBERED = 1_000_000


class Price(Property):
    """Lines cost what the sale's terms say, and money moved as the orders demand."""

    id, name, level = "P14", "price", Level.PAY
    asks = "Every order, part, answer, payment and refund has the right amount, to the minor unit."
    fails = "rounding; a price from a cache; a refund that never comes"
    planted = "wrong amount for all"

    def _judge(self, evidence: Evidence) -> Finding:
        if not evidence.has_ledger:
            return self.unknown("there is no ledger of the payment provider")
        if why := untold(evidence) or _unpriced(evidence):
            return self.unknown(why)
        orders = evidence.value("SELECT count(*) FROM opened")
        shown = evidence.value("SELECT count(*) FROM call WHERE amount IS NOT NULL")
        captures = evidence.value("SELECT count(*) FROM payment WHERE operation = 'capture'")
        good = f"{orders} orders, {captures} captures and {shown} answers show the right amounts"
        finding = self.judged(_wrong(evidence), good)
        if finding.verdict == PASS and (waiting := list(_on_their_way(evidence))):
            return self.unknown(f"{len(waiting)} refunds are on their way: {waiting[0]}")
        return finding


def _unpriced(evidence: Evidence) -> str:
    for (sale,) in evidence.rows(
        "SELECT DISTINCT sale FROM sold WHERE sale NOT IN (SELECT sale FROM possible)"
    ):
        return f"nothing tells the price of sale {sale}"
    return ""


def _wrong(evidence: Evidence) -> Iterator[str]:
    yield from _wrong_lines(evidence)
    yield from _wrong_parts(evidence)
    yield from _wrong_answers(evidence)
    yield from _wrong_captures(evidence)
    yield from _wrong_refunds(evidence)


def _wrong_lines(evidence: Evidence) -> Iterator[str]:
    """The price is that of the moment at which the line's transaction looked at its sale."""
    for order, sale, quantity, amount, prices in evidence.rows(
        """
        SELECT order_id, sale, quantity, amount, (
            SELECT group_concat(DISTINCT price) FROM possible
            WHERE possible.sale = sold.sale AND since <= latest AND until >= created)
        FROM sold WHERE NOT EXISTS (
            SELECT 1 FROM possible WHERE possible.sale = sold.sale AND since <= latest
                AND until >= created AND price * quantity = amount)
        """
    ):
        yield (
            f"order {order}: {quantity} of sale {sale} cost {amount}, at a price of "
            f"{prices or 'nothing that is known'}"
        )
    for order, currency, sale, other in evidence.rows(
        """
        SELECT order_id, sold.currency, sale.id, sale.currency FROM sold
        JOIN sale ON sale.snapshot = 0 AND sale.id = sold.sale
        WHERE sale.currency <> '' AND sale.currency <> sold.currency
        """
    ):
        yield f"order {order} is in {currency}, and sale {sale} in {other}"


def _wrong_parts(evidence: Evidence) -> Iterator[str]:
    for order, name, quantity, sale, amount, of, cost in evidence.rows(
        """
        SELECT event.order_id, name, event.quantity, event.sale, event.amount, sold.quantity,
               sold.amount
        FROM event JOIN opened ON opened.id = event.order_id
        LEFT JOIN sold ON sold.order_id = event.order_id AND sold.sale = event.sale
        WHERE name IN ('part_cancelled', 'part_returned')
            AND (event.amount * sold.quantity = sold.amount * event.quantity) IS NOT 1
        """
    ):
        line = f"{cost} for {of}" if of is not None else "not in it"
        yield f"order {order}, {name}: {quantity} of sale {sale} for {amount}, which was {line}"
    for order, to_pay, total, least in evidence.rows(
        """
        SELECT id, to_pay, total, min(amounts.amount) AS least FROM opened
        JOIN amounts ON amounts.order_id = opened.id GROUP BY id HAVING to_pay <> least
        """
    ):
        yield f"order {order} of {total}, {total - least} of it cancelled, has {to_pay} to pay"


def _wrong_answers(evidence: Evidence) -> Iterator[str]:
    """A new order shows its whole amount; later answers, one that it had, less what was cancelled.

    So with what was given back, and with a sale's price, which may be one of a second ago.
    """
    for sale, amount, currency, start, end in evidence.rows(
        """
        SELECT id, amount, shown, since_then, until_then FROM (
            SELECT sale.id, call.amount, call.currency AS shown, sale.currency,
                   call.start / 1000 + skew.low - ? AS since_then,
                   call."end" / 1000 + skew.high AS until_then
            FROM call JOIN sale ON sale.snapshot = 0 AND sale.id = call.sale CROSS JOIN skew
            WHERE op = 'look' AND call.amount IS NOT NULL
        ) WHERE (currency <> '' AND shown <> currency) OR NOT EXISTS (
            SELECT 1 FROM possible WHERE possible.sale = id AND price = amount
                AND since <= until_then AND until >= since_then)
        """,
        _REMEMBERED,
    ):
        yield (
            f"sale {sale} was shown with a price of {amount} {currency} between {moment(start)} "
            f"and {moment(end)}, which it never had then"
        )
    for op, order, units, part, whole in evidence.rows(
        """
        SELECT op, call.order_id, returned, call.quantity, (
            SELECT sum(quantity) FROM sold WHERE sold.order_id = call.order_id) AS whole
        FROM call JOIN opened ON opened.id = call.order_id
        WHERE outcome = 'ok' AND (returned > whole
            OR (returned < call.quantity AND op IN ('cancel', 'refund'))
            OR (returned < whole AND shown_status IN ('cancelled', 'expired')))
        """
    ):
        yield (
            f"an answer ({op} of {part or 'all'}) showed {units} units of order {order} as given "
            f"back, of {whole}"
        )
    for op, order, amount, currency, refunded, total, real in evidence.rows(
        """
        SELECT op, order_id, call.amount, call.currency, call.refunded, opened.total,
               opened.currency
        FROM call JOIN opened ON opened.id = call.order_id
        WHERE call.amount IS NOT NULL AND (
            call.currency <> opened.currency
            OR (op = 'order' AND call.status = 201 AND call.amount <> opened.total)
            OR NOT EXISTS (SELECT 1 FROM amounts
                WHERE amounts.order_id = opened.id AND amounts.amount = call.amount)
            OR NOT EXISTS (SELECT 1 FROM given_back
                WHERE given_back.order_id = opened.id AND given_back.amount = call.refunded))
        """
    ):
        yield (
            f"an answer ({op}) showed order {order} with {amount} {currency}, {refunded} given "
            f"back; it was opened with {total} {real}, and had no such amounts"
        )


def _wrong_captures(evidence: Evidence) -> Iterator[str]:
    for order, amount, currency, total, real in evidence.rows(
        """
        SELECT order_id, payment.amount, payment.currency, total, opened.currency
        FROM payment JOIN opened ON opened.id = order_id
        WHERE operation = 'capture' AND (
            (payment.currency <> '' AND payment.currency <> opened.currency)
            OR NOT EXISTS (SELECT 1 FROM amounts WHERE amounts.order_id = opened.id
                AND amounts.amount = payment.amount))
        """
    ):
        yield (
            f"{amount} {currency} was captured for order {order}, which never had that to pay; "
            f"it was opened with {total} {real}"
        )


# What of an order's money should be the shop's, what is, and whether the shop can say why not: the
# last thing after which money had to go back. Nothing is kept of an order that has ended.
_MONEY = """
    WITH money AS (
        SELECT opened.id, opened.status, opened.refunded AS told,
            iif(opened.status IN ('paid', 'fulfilled'), to_pay - coalesce((
                SELECT sum(event.amount) FROM event
                WHERE event.order_id = opened.id AND name = 'part_returned'), 0), 0) AS due,
            sum(payment.amount) FILTER (WHERE operation = 'capture') AS captured,
            coalesce(sum(payment.amount) FILTER (WHERE operation = 'refund'), 0) AS back,
            (SELECT max(at) FROM event WHERE event.order_id = opened.id
             AND name IN ('part_returned', 'returned', 'money_owed')) AS owed_since,
            (SELECT count(*) FROM event WHERE event.order_id = opened.id
             AND name = 'refund_failed') AS failed
        FROM payment JOIN opened ON opened.id = payment.order_id
        WHERE opened.status <> 'awaiting_payment' GROUP BY opened.id HAVING captured IS NOT NULL
    )
"""
# A refund that is on its way: written down, not too long ago, and not over.
_WAITING = """
    captured - min(back, told) > due AND owed_since IS NOT NULL AND (failed OR coalesce((
        SELECT clock FROM snapshot WHERE number = 0 AND clock > 0), 0) - owed_since <= ?)
"""


def _wrong_refunds(evidence: Evidence) -> Iterator[str]:
    for order, status, captured, back, due, told in evidence.rows(
        f"""{_MONEY} SELECT id, status, captured, back, due, told FROM money
        WHERE NOT ({_WAITING}) AND (captured - back <> due OR told <> back)""",
        evidence.refund_us,
    ):
        yield (
            f"order {order} is {status}: {captured} captured, {back} given back ({told} by the "
            f"shop's books), of which {due} should be kept"
        )
    for order, told, said in evidence.rows(
        """
        SELECT id, refunded, max(given_back.amount) AS said FROM opened
        JOIN given_back ON given_back.order_id = id GROUP BY id HAVING refunded <> said
        """
    ):
        yield f"order {order} has {told} given back, and {said} by its events"


def _on_their_way(evidence: Evidence) -> Iterator[str]:
    for order, status, captured, back, due in evidence.rows(
        f"{_MONEY} SELECT id, status, captured, back, due FROM money WHERE {_WAITING}",
        evidence.refund_us,
    ):
        yield f"order {order} is {status}, {captured} captured, {back} given back, {due} due"
