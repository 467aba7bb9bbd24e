"""P20: whether what answers said was so, and what must be refused was.

`sold_out` is judged by P7, and a purchase that was refused and yet opened an order by P4.
"""

from __future__ import annotations

from loadtest.checker.properties.property import Check, Need, Property
from loadtest.shop import Level

# What a shop may say that is overloaded, or that does not know what became of a request.
_UNKNOWN = ("busy", "outcome_unknown")

# Pages, which tell no code when the shop is overloaded.
_PAGES = ("page", "mail")

# Refusals that do not depend on whether the request was valid.
_TOLD_FIRST = ("busy", "sold_out", "limit_reached", "not_started", "paused", "ended")

# Processes remember a sale for a second, and for another one while they read it again (µs).
_REMEMBERED = 3_000_000
# A step of an order is told of this much later at most, and a refusal may still say how it stood
# before (µs).
_COMMIT = 5_000_000
# After a fault a process may know no better for a while (ns).
_BROKEN = 5_000_000_000

# What was said of sales whose terms are known, and between which moments it is to have been so.
_SAID = f"""(
    SELECT call.*, call.rowid AS calls, iif(op = 'look', shown_status, code) AS said,
           call.start / 1000 + skew.low - {_REMEMBERED} AS since_then,
           call."end" / 1000 + skew.high AS until_then
    FROM call CROSS JOIN skew
    WHERE sale IN (SELECT sale FROM terms) AND NOT EXISTS (
        SELECT 1 FROM fault
        WHERE fault.start <= call."end" AND fault."end" + {_BROKEN} >= call.start)
) AS call"""


# Where nothing was broken, no request ends in an error: it tells nobody what became of it. Nor is a
# purchase unknown: only a commit without an answer is. A refusal told as an error (503 sold_out) is
# wrong at any time: clients would ask again.
_SERVER_ERRORS = Check(
    "a request ({op}) about {about} was answered {answer}",
    f"""
    SELECT rowid AS calls, op, iif(coalesce(order_id, '') <> '', 'order ' || order_id,
        'sale ' || coalesce(sale, 'None')) AS about, status || ' ' || code AS answer
    FROM call
    WHERE status >= 500 AND code NOT IN {_UNKNOWN} AND (
        code NOT IN ('', 'internal_error')
        OR (NOT :has_faults AND (status = 500 OR op NOT IN {_PAGES})))
        OR code = 'outcome_unknown' AND op = 'order' AND NOT :has_faults
    """,
    certain=True,
)

# A key's first good answer repeats an order (200), and all requests before it were refused. Under
# faults a request may find the order that it has opened itself, when the reply to its commit was
# lost. When the order was opened tells more then.
_REFUSED_AND_OPENED = Check(
    "key {key} was refused {times} times ({codes}), and then answered with order {order} as if "
    "with one that was there",
    """
    WITH first AS (
        SELECT call.rowid AS number, call.key, call.order_id, call."end" FROM purchase
        JOIN call ON call.key = purchase.key AND call.op = 'order' AND call.outcome = 'ok'
            AND call."end" = purchase.answered AND call.status = 200
        WHERE purchase.attempts > 1
    )
    SELECT first.key, first.order_id AS "order", count(*) AS times,
        group_concat(DISTINCT other.code) AS codes,
        group_concat(other.rowid) || ',' || first.number AS calls
    FROM first
    JOIN call AS other ON other.key = first.key AND other.op = 'order'
        AND other.rowid <> first.number AND other.start < first."end"
    WHERE NOT :has_faults
    GROUP BY first.number HAVING sum(other.outcome <> 'fail') = 0
    """,
    certain=True,
)

_NOT_FOUND = Check(
    "order {order} was promised at {answered} and not found by its buyer's {op}",
    """
    SELECT call.op, call.order_id AS "order", min(promise."end") AS answered,
        promise.rowid || ',' || call.rowid AS calls
    FROM call
    JOIN call AS promise ON promise.order_id = call.order_id AND promise.buyer = call.buyer
        AND promise.op = 'order' AND promise.outcome = 'ok' AND promise."end" < call.start
    WHERE call.op IN ('page', 'payment', 'cancel', 'refund') AND call.status = 404
    GROUP BY call.rowid
    """,
    certain=True,
)

# An overload or the sale's end may be told first; a server error is judged elsewhere. To a stranger
# only an overload: one who is told that a sale has sold out was taken for a buyer.
_INVALID_AND_GRANTED = Check(
    "an invalid request of {buyer} ({op}) was answered {answer}, and not {must}",
    f"""
    SELECT rowid AS calls, buyer, op, must, rtrim(status || ' ' || code) AS answer FROM call
    WHERE must > 0 AND outcome <> 'info' AND status NOT IN (must, 0, 429) AND code <> 'busy'
    AND (must = 401 OR code NOT IN {_TOLD_FIRST})
    """,
    certain=True,
)

# Sold out means that no units are available; open, that some are.
_STOCK_SHOWN = Check(
    "sale {sale} was shown as {shown} with {available} units available",
    """
    SELECT rowid AS calls, sale, shown_status AS shown, available FROM call
    WHERE op = 'look' AND outcome = 'ok' AND available IS NOT NULL
    AND shown_status = iif(available > 0, 'sold_out', 'open')
    """,
    certain=True,
)

# An order is older than all requests for it that were not refused.
_OPENED_BEFORE = Check(
    "order {order} of key {key} was opened at {created!t}; what was asked before {earliest!t} was "
    "refused ({codes})",
    """
    SELECT purchase.key, sold.order_id AS "order", created,
           min(call.start) FILTER (WHERE call.outcome <> 'fail') / 1000 + skew.low AS earliest,
           trim(group_concat(DISTINCT call.code), ',') AS codes
    FROM purchase JOIN sold ON sold.key = purchase.key JOIN call ON call.key = purchase.key
        AND call.op = 'order'
    CROSS JOIN skew
    WHERE purchase.attempts > 1 AND created < purchase.answered / 1000 + skew.low
    GROUP BY purchase.key HAVING created < earliest AND sum(call.outcome = 'fail') > 0
    """,
)

# A buyer is refused for what they have, or may have had while the request lasted.
_LIMIT_NOT_REACHED = Check(
    "{buyer} was refused {quantity} of sale {sale} (key {key}) for its limit of {limit}, and had "
    "at most {most}",
    """
    SELECT call.key, call.buyer, call.quantity, call.sale, "limit",
           coalesce(sum(holding.units), 0) AS most, call.rowid AS calls
    FROM call JOIN sale ON sale.snapshot = 0 AND sale.id = call.sale
    LEFT JOIN holding ON holding.buyer = call.buyer AND holding.sale = call.sale
        AND until >= call.start AND since <= iif(units > 0, call."end", call.start)
    WHERE op = 'order' AND code = 'limit_reached' AND outcome = 'fail'
    GROUP BY call.rowid HAVING "limit" = 0 OR most + call.quantity <= "limit"
    """,
)

# Closed at some moment of the request, or shortly before it. Where a sale opens just when the
# database is asked, the reason is told afterwards, when there is none any more; it is then called
# paused. So paused may stand for any reason.
_NOT_CLOSED = Check(
    "{buyer} was told {said} between {since_then!t} and {until_then!t}, which sale {sale} was not",
    f"""
    SELECT buyer, said, sale, since_then, until_then, calls FROM {_SAID}
    WHERE (op, outcome) IN (VALUES ('order', 'fail'), ('look', 'ok'))
        AND said IN ('not_started', 'ended', 'paused') AND NOT EXISTS (
            SELECT 1 FROM possible
            WHERE possible.sale = call.sale AND since <= until_then AND until >= since_then
            AND (
                (said <> 'ended' AND max(since, since_then) < starts_at)
                OR (said <> 'not_started' AND min(until, until_then) >= ends_at)
                OR (said = 'paused' AND paused)))
    """,
)

_DECLINED_AND_CAPTURED = Check(
    "every payment of order {order} was declined, and {captured} was captured for it",
    """
    SELECT call.order_id AS "order", op, (SELECT sum(payment.amount) FROM payment
        WHERE payment.order_id = call.order_id AND operation = 'capture') AS captured
    FROM call JOIN owner ON owner.order_id = call.order_id AND owner.buyer = call.buyer
    WHERE op = 'payment' GROUP BY call.order_id
    HAVING sum(code = 'payment_declined') > 0 AND sum(outcome <> 'fail') = 0
        AND captured IS NOT NULL
    """,
)

# A refusal that tells a status; past its deadline an order may be called expired.
_NEVER_IN_THAT_STATE = Check(
    "a {op} of order {order} was refused ({code}), which it was not; it is {state}",
    f"""
    SELECT op, call.order_id AS "order", code, opened.status AS state, call.rowid AS calls FROM call
    JOIN opened ON opened.id = call.order_id
    JOIN owner ON owner.order_id = call.order_id AND owner.buyer = call.buyer
    CROSS JOIN skew
    WHERE outcome = 'fail' AND code LIKE 'order~_%' ESCAPE '~' AND NOT (
        substr(code, 7) IN (SELECT after FROM step WHERE op = 'expire') AND (
            skew.high IS NULL OR pay_before <= call."end" / 1000 + skew.high)
    ) AND NOT EXISTS (
        SELECT 1 FROM state WHERE state.order_id = call.order_id
        AND state.status = substr(code, 7) AND (skew.low IS NULL OR (
            entered <= call."end" / 1000 + skew.high
            AND ("left" IS NULL OR "left" + {_COMMIT} >= call.start / 1000 + skew.low))))
    """,
)

_KEY_NOT_REUSED = Check(
    "key {key} was refused as used for another purchase, and was used for one only",
    """
    SELECT key FROM call WHERE op = 'order' AND key IN (
        SELECT key FROM call WHERE op = 'order' AND code = 'idempotency_key_reused')
    GROUP BY key
    HAVING count(DISTINCT quantity) = 1 AND count(DISTINCT sale) = 1 AND max(cart) = ''
    """,
)

# Open and sold out mean that the sale is open.
_SALE_SHOWN = Check(
    "sale {sale} was shown as {said} between {since_then!t} and {until_then!t}, when it was closed",
    f"""
    SELECT sale, said, since_then, until_then, calls FROM {_SAID}
    WHERE op = 'look' AND outcome = 'ok' AND said IN ('open', 'sold_out') AND NOT EXISTS (
        SELECT 1 FROM possible
        WHERE possible.sale = call.sale AND since <= until_then AND until >= since_then
            AND NOT paused AND max(since, since_then) < ends_at
            AND min(until, until_then) >= starts_at)
    """,
)


class TrueAnswers(Property):
    """Each refusal was true at some moment of its request, and none hides an order.

    What a sale was said to be was so as well, and no invalid request was granted.
    """

    id, name, level = "P20", "true answers", Level.STOCK
    needs = Need.PROMISES
    asks = "What answers said was so; no refusal hid an order, and no invalid request was granted."
    fails = "“busy” after the commit; a limit that was not reached; a purchase without a key"
    planted = "busy after the commit"
    counts = "SELECT count(*) AS refusals FROM call WHERE outcome = 'fail' AND code <> ''"
    good = "{refusals} refusals, none of them untrue"
    checks = (
        _SERVER_ERRORS,
        _REFUSED_AND_OPENED,
        _NOT_FOUND,
        _INVALID_AND_GRANTED,
        _STOCK_SHOWN,
        _OPENED_BEFORE,
        _LIMIT_NOT_REACHED,
        _NOT_CLOSED,
        _DECLINED_AND_CAPTURED,
        _NEVER_IN_THAT_STATE,
        _KEY_NOT_REUSED,
        _SALE_SHOWN,
    )
