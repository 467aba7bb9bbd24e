"""P11 and P14: the provider's ledger, and every amount, to the minor unit."""

from __future__ import annotations

from loadtest.checker.evidence import Evidence
from loadtest.checker.properties.property import Check, Property
from loadtest.checker.verdict import PASS, Finding
from loadtest.shop import Level

_CHARGES = """
    SELECT p.order_id AS "order", sum(operation = 'capture') AS captures,
        coalesce(sum(p.amount) FILTER (WHERE operation = 'capture'), 0) AS captured,
        coalesce(sum(p.amount) FILTER (WHERE operation = 'refund'), 0) AS refunded,
        (SELECT sum(o.amount) FROM "order" AS o
         WHERE o.snapshot = 0 AND o.id = p.order_id) AS price
    FROM payment AS p GROUP BY p.order_id
"""


class AtMostOneCharge(Property):
    """At most one capture an order, none without one, and no more refunded than captured.

    Nor is anything paid that was not captured, the money of an order kept that has ended, or an
    order said to wait for money that is back.
    """

    id, name, level = "P11", "at most one charge", Level.PAY
    asks = "By the payment provider's ledger, no buyer was charged twice or refunded too much."
    fails = "retried payments; two refunds at once"
    planted = "charged twice"
    counts = "SELECT count(*) AS captures FROM payment WHERE operation = 'capture'"
    good = "{captures} captures, at most one per order"
    checks = (
        Check(
            "order {order} was charged {captured} and is not there",
            f"{_CHARGES} HAVING price IS NULL",
        ),
        Check(
            "order {order} of {price}: {captures} captures of {captured} together, {refunded} "
            "refunded",
            f"""
            {_CHARGES} HAVING price IS NOT NULL
                AND (captures > 1 OR refunded > captured OR captured > price)
            """,
        ),
        Check(
            "order {order} of {price} is {state}, and {what}",
            """
            SELECT "order", price, state,
                   iif(kept, kept || ' of it is kept', 'nothing of it is with the shop') AS what
            FROM (
                SELECT id AS "order", status AS state, total AS price, paid, coalesce(
                    (SELECT sum(CASE operation WHEN 'capture' THEN p.amount ELSE -p.amount END)
                     FROM payment AS p WHERE p.order_id = opened.id), 0) AS kept
                FROM opened
            )
            WHERE (paid AND price > 0 AND kept = 0) OR (NOT paid AND kept > 0)
            """,
        ),
    )

    def missing(self, evidence: Evidence) -> str:
        """Ask for the ledger, and for what the statuses of orders mean."""
        if not evidence.has_ledger:
            return "there is no ledger of the payment provider"
        return evidence.unexplained()


# A process shows a sale as it was a second ago (µs).
_REMEMBERED = 1_000_000

# The price is that of the moment at which the line's transaction looked at its sale.
_LINES = (
    Check(
        "order {order}: {quantity} of sale {sale} cost {amount}, at a price of {prices}",
        """
        SELECT order_id AS "order", sale, quantity, amount, coalesce((
            SELECT group_concat(DISTINCT price) FROM possible
            WHERE possible.sale = sold.sale AND since <= latest AND until >= created),
            'nothing that is known') AS prices
        FROM sold WHERE NOT EXISTS (
            SELECT 1 FROM possible WHERE possible.sale = sold.sale AND since <= latest
                AND until >= created AND price * quantity = amount)
        """,
    ),
    Check(
        "order {order} is in {currency}, and sale {sale} in {other}",
        """
        SELECT order_id AS "order", sold.currency, sale.id AS sale, sale.currency AS other FROM sold
        JOIN sale ON sale.snapshot = 0 AND sale.id = sold.sale
        WHERE sale.currency <> '' AND sale.currency <> sold.currency
        """,
    ),
)

_PARTS = (
    Check(
        "order {order}, {name}: {quantity} of sale {sale} for {amount}, which was {line}",
        """
        SELECT part.order_id AS "order", name, part.quantity, part.sale, part.amount,
               coalesce(sold.amount || ' for ' || sold.quantity, 'not in it') AS line
        FROM happened AS part JOIN opened ON opened.id = part.order_id
        LEFT JOIN sold ON sold.order_id = part.order_id AND sold.sale = part.sale
        WHERE op IN ('cancel', 'refund') AND part.quantity > 0
            AND (part.amount * sold.quantity = sold.amount * part.quantity) IS NOT 1
        """,
    ),
    Check(
        "order {order} of {total}, {cancelled} of it cancelled, has {to_pay} to pay",
        """
        SELECT id AS "order", to_pay, total, total - min(amounts.amount) AS cancelled FROM opened
        JOIN amounts ON amounts.order_id = opened.id
        GROUP BY id HAVING to_pay <> min(amounts.amount)
        """,
    ),
)

# A new order shows its whole amount; later answers, one that it had, less what was cancelled. So
# with what was given back, and with a sale's price, which may be one of a second ago.
_ANSWERS = (
    Check(
        "sale {sale} was shown with a price of {amount} {currency} between {since_then!t} and "
        "{until_then!t}, which it never had then",
        f"""
        SELECT id AS sale, amount, shown AS currency, since_then, until_then, calls FROM (
            SELECT sale.id, call.amount, call.currency AS shown, sale.currency,
                   call.start / 1000 + skew.low - {_REMEMBERED} AS since_then,
                   call."end" / 1000 + skew.high AS until_then, call.rowid AS calls
            FROM call JOIN sale ON sale.snapshot = 0 AND sale.id = call.sale CROSS JOIN skew
            WHERE op = 'look' AND call.amount IS NOT NULL
        ) AS look WHERE (look.currency <> '' AND shown <> look.currency) OR NOT EXISTS (
            SELECT 1 FROM possible WHERE possible.sale = look.id AND price = amount
                AND since <= until_then AND until >= since_then)
        """,
    ),
    Check(
        "an answer ({op} of {part}) showed {back} units of order {order} as given back, of {whole}",
        """
        SELECT op, call.order_id AS "order", returned AS back,
            iif(call.quantity, call.quantity, 'all') AS part, call.rowid AS calls, (
            SELECT sum(quantity) FROM sold WHERE sold.order_id = call.order_id) AS whole
        FROM call JOIN opened ON opened.id = call.order_id
        WHERE outcome = 'ok' AND (returned > whole
            OR (returned < call.quantity AND op IN ('cancel', 'refund'))
            OR (returned < whole AND shown_status IN (
                SELECT after FROM step WHERE op IN ('cancel', 'expire'))))
        """,
    ),
    Check(
        "an answer ({op}) showed order {order} with {amount} {currency}, {refunded} given back; it "
        "was opened with {total} {real}, and had no such amounts",
        """
        SELECT op, order_id AS "order", call.amount, call.currency, call.refunded, opened.total,
               opened.currency AS real, call.rowid AS calls
        FROM call JOIN opened ON opened.id = call.order_id
        WHERE call.amount IS NOT NULL AND (
            call.currency <> opened.currency
            OR (op = 'order' AND call.status = 201 AND call.amount <> opened.total)
            OR NOT EXISTS (SELECT 1 FROM amounts
                WHERE amounts.order_id = opened.id AND amounts.amount = call.amount)
            OR NOT EXISTS (SELECT 1 FROM given_back
                WHERE given_back.order_id = opened.id AND given_back.amount = call.refunded))
        """,
    ),
)

_CAPTURES = (
    Check(
        "{amount} {currency} was captured for order {order}, which never had that to pay; it was "
        "opened with {total} {real}",
        """
        SELECT order_id AS "order", payment.amount, payment.currency, total,
               opened.currency AS real
        FROM payment JOIN opened ON opened.id = order_id
        WHERE operation = 'capture' AND (
            (payment.currency <> '' AND payment.currency <> opened.currency)
            OR NOT EXISTS (SELECT 1 FROM amounts WHERE amounts.order_id = opened.id
                AND amounts.amount = payment.amount))
        """,
    ),
)

# What of an order's money should be the shop's, what is, and whether the shop can say why not: the
# last thing after which money had to go back. Nothing is kept of an order that has ended.
_MONEY = """
    WITH money AS (
        SELECT opened.id AS "order", opened.status AS state, opened.refunded AS told,
            iif(stock = 'confirmed', to_pay - coalesce((
                SELECT sum(part.amount) FROM happened AS part
                WHERE part.order_id = opened.id AND op = 'refund' AND quantity > 0), 0), 0) AS due,
            sum(payment.amount) FILTER (WHERE operation = 'capture') AS captured,
            coalesce(sum(payment.amount) FILTER (WHERE operation = 'refund'), 0) AS back,
            (SELECT max(at) FROM happened WHERE happened.order_id = opened.id
             AND op IN ('refund', 'owe')) AS owed_since,
            (SELECT count(*) FROM happened WHERE happened.order_id = opened.id
             AND op = 'stuck') AS failed
        FROM payment JOIN opened ON opened.id = payment.order_id
        WHERE stock <> 'held' GROUP BY opened.id HAVING captured IS NOT NULL
    )
    SELECT "order", state, captured, back, due, told FROM money
"""
# A refund that is on its way: written down, not too long ago, and not over.
_WAITING = """
    captured - min(back, told) > due AND owed_since IS NOT NULL AND (failed OR coalesce((
        SELECT clock FROM snapshot WHERE number = 0 AND clock > 0), 0) - owed_since <= :refund_us)
"""
_ON_ITS_WAY = Check(
    "order {order} is {state}, {captured} captured, {back} given back, {due} due",
    f"{_MONEY} WHERE {_WAITING}",
)

_REFUNDS = (
    Check(
        "order {order} is {state}: {captured} captured, {back} given back ({told} by the shop's "
        "books), of which {due} should be kept",
        f"{_MONEY} WHERE NOT ({_WAITING}) AND (captured - back <> due OR told <> back)",
    ),
    Check(
        "order {order} has {told} given back, and {said} by its events",
        """
        SELECT id AS "order", refunded AS told, max(given_back.amount) AS said FROM opened
        JOIN given_back ON given_back.order_id = id GROUP BY id HAVING refunded <> said
        """,
    ),
)


class Price(Property):
    """Lines cost what the sale's terms say, and money moved as the orders demand."""

    id, name, level = "P14", "price", Level.PAY
    asks = "Every order, part, answer, payment and refund has the right amount, to the minor unit."
    fails = "rounding; a price from a cache; a refund that never comes"
    planted = "wrong amount for all"
    counts = """
        SELECT (SELECT count(*) FROM opened) AS orders,
               (SELECT count(*) FROM call WHERE amount IS NOT NULL) AS shown,
               (SELECT count(*) FROM payment WHERE operation = 'capture') AS captures
    """
    good = "{orders} orders, {captures} captures and {shown} answers show the right amounts"
    checks = (*_LINES, *_PARTS, *_ANSWERS, *_CAPTURES, *_REFUNDS)

    def missing(self, evidence: Evidence) -> str:
        """Ask for the ledger, what orders went through, and the price of each sale."""
        if not evidence.has_ledger:
            return "there is no ledger of the payment provider"
        if why := evidence.untold():
            return why
        for (sale,) in evidence.rows(
            "SELECT DISTINCT sale FROM sold WHERE sale NOT IN (SELECT sale FROM possible)"
        ):
            return f"nothing tells the price of sale {sale}"
        return ""

    def _judge(self, evidence: Evidence) -> Finding:
        finding = super()._judge(evidence)
        if finding.verdict == PASS and (waiting := list(_ON_ITS_WAY.problems(evidence))):
            return self.unknown(f"{len(waiting)} refunds are on their way: {waiting[0].text}")
        return finding
