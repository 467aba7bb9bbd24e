"""P20: whether what answers said was so, and what must be refused was.

`sold_out` is judged by P7, and a purchase that was refused and yet opened an order by P4.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

from loadtest.checker.evidence import Evidence
from loadtest.checker.properties.moment import moment
from loadtest.checker.properties.property import Need, Problem, Property, texts
from loadtest.checker.verdict import Finding
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
    SELECT call.*, iif(op = 'look', shown_status, code) AS said,
           call.start / 1000 + skew.low - {_REMEMBERED} AS since_then,
           call."end" / 1000 + skew.high AS until_then
    FROM call CROSS JOIN skew
    WHERE sale IN (SELECT sale FROM terms) AND NOT EXISTS (
        SELECT 1 FROM fault
        WHERE fault.start <= call."end" AND fault."end" + {_BROKEN} >= call.start)
) AS call"""


class TrueAnswers(Property):
    """Each refusal was true at some moment of its request, and none hides an order.

    What a sale was said to be was so as well, and no invalid request was granted.
    """

    id, name, level = "P20", "true answers", Level.STOCK
    needs = Need.PROMISES
    asks = "What answers said was so; no refusal hid an order, and no invalid request was granted."
    fails = "“busy” after the commit; a limit that was not reached; a purchase without a key"
    planted = "busy after the commit"

    def _judge(self, evidence: Evidence) -> Finding:
        refusals = evidence.value("SELECT count(*) FROM call WHERE outcome = 'fail' AND code <> ''")
        problems = chain(texts(self.so_far(evidence)), _untrue(evidence))
        return self.judged(problems, f"{refusals} refusals, none of them untrue")

    def so_far(self, evidence: Evidence) -> Iterator[Problem]:
        """What answers alone show to be wrong."""
        yield from _server_errors(evidence)
        yield from _refused_and_opened(evidence)
        yield from _not_found(evidence)
        yield from _invalid_and_granted(evidence)
        yield from _stock_shown(evidence)


def _untrue(evidence: Evidence) -> Iterator[str]:
    """What the books show to be wrong, or only the whole history."""
    yield from _opened_before(evidence)
    yield from _limit_not_reached(evidence)
    yield from _not_closed(evidence)
    yield from _declined_and_captured(evidence)
    yield from _never_in_that_state(evidence)
    yield from _key_not_reused(evidence)
    yield from _sale_shown(evidence)


def _server_errors(evidence: Evidence) -> Iterator[Problem]:
    """Where nothing was broken, no request ends in an error: it tells nobody what became of it.

    Nor is a purchase unknown: only a commit without an answer is. A refusal told as an error
    (503 sold_out) is wrong at any time: clients would ask again.
    """
    for row, op, sale, order, status, code in evidence.rows(
        f"""
        SELECT rowid, op, sale, order_id, status, code FROM call
        WHERE status >= 500 AND code NOT IN {_UNKNOWN} AND (
            code NOT IN ('', 'internal_error') OR (NOT ? AND (status = 500 OR op NOT IN {_PAGES})))
            OR code = 'outcome_unknown' AND op = 'order' AND NOT ?
        """,
        evidence.has_faults,
        evidence.has_faults,
    ):
        about = f"order {order}" if order else f"sale {sale}"
        text = f"a request ({op}) about {about} was answered {status} {code}".rstrip()
        yield Problem(text, (row,))


def _refused_and_opened(evidence: Evidence) -> Iterator[Problem]:
    """A key's first good answer repeats an order (200), and all requests before it were refused.

    Under faults a request may find the order that it has opened itself, when the reply to its
    commit was lost. When the order was opened tells more then; see `_opened_before`.
    """
    if evidence.has_faults:
        return
    for key, order, times, codes, answered, refused in evidence.rows(
        """
        WITH first AS (
            SELECT call.rowid AS number, call.key, call.order_id, call."end" FROM purchase
            JOIN call ON call.key = purchase.key AND call.op = 'order' AND call.outcome = 'ok'
                AND call."end" = purchase.answered AND call.status = 200
            WHERE purchase.attempts > 1
        )
        SELECT first.key, first.order_id, count(*), group_concat(DISTINCT other.code),
            first.number, group_concat(other.rowid) FROM first
        JOIN call AS other ON other.key = first.key AND other.op = 'order'
            AND other.rowid <> first.number AND other.start < first."end"
        GROUP BY first.number HAVING sum(other.outcome <> 'fail') = 0
        """
    ):
        yield Problem(
            f"key {key} was refused {times} times ({codes}), and then answered with order "
            f"{order} as if with one that was there",
            (*map(int, refused.split(",")), answered),
        )


def _opened_before(evidence: Evidence) -> Iterator[str]:
    """An order is older than all requests for it that were not refused."""
    for key, order, created, start, codes in evidence.rows(
        """
        SELECT purchase.key, sold.order_id, created,
               min(call.start) FILTER (WHERE call.outcome <> 'fail') / 1000 + skew.low AS earliest,
               group_concat(DISTINCT call.code)
        FROM purchase JOIN sold ON sold.key = purchase.key JOIN call ON call.key = purchase.key
            AND call.op = 'order'
        CROSS JOIN skew
        WHERE purchase.attempts > 1 AND created < purchase.answered / 1000 + skew.low
        GROUP BY purchase.key HAVING created < earliest AND sum(call.outcome = 'fail') > 0
        """
    ):
        yield (
            f"order {order} of key {key} was opened at {moment(created)}; what was asked before "
            f"{moment(start)} was refused ({codes.strip(',')})"
        )


def _limit_not_reached(evidence: Evidence) -> Iterator[str]:
    """A buyer is refused for what they have, or may have had while the request lasted."""
    for key, buyer, quantity, sale, limit, most in evidence.rows(
        """
        SELECT call.key, call.buyer, call.quantity, call.sale, "limit",
               coalesce(sum(units), 0) AS most
        FROM call JOIN sale ON sale.snapshot = 0 AND sale.id = call.sale
        LEFT JOIN holding ON holding.buyer = call.buyer AND holding.sale = call.sale
            AND until >= call.start AND since <= iif(units > 0, call."end", call.start)
        WHERE op = 'order' AND code = 'limit_reached' AND outcome = 'fail'
        GROUP BY call.rowid HAVING "limit" = 0 OR most + call.quantity <= "limit"
        """
    ):
        yield (
            f"{buyer} was refused {quantity} of sale {sale} (key {key}) for its limit of {limit}, "
            f"and had at most {most}"
        )


def _not_closed(evidence: Evidence) -> Iterator[str]:
    """Closed at some moment of the request, or shortly before it.

    Where a sale opens just when the database is asked, the reason is told afterwards, when there
    is none any more; it is then called paused. So paused may stand for any reason.
    """
    for buyer, said, sale, start, end in evidence.rows(
        f"""
        SELECT buyer, said, sale, since_then, until_then FROM {_SAID}
        WHERE (op, outcome) IN (VALUES ('order', 'fail'), ('look', 'ok'))
            AND said IN ('not_started', 'ended', 'paused') AND NOT EXISTS (
                SELECT 1 FROM possible
                WHERE possible.sale = call.sale AND since <= until_then AND until >= since_then
                AND (
                    (said <> 'ended' AND max(since, since_then) < starts_at)
                    OR (said <> 'not_started' AND min(until, until_then) >= ends_at)
                    OR (said = 'paused' AND paused)))
        """
    ):
        yield (
            f"{buyer} was told {said} between {moment(start)} and {moment(end)}, which sale {sale} "
            "was not"
        )


def _declined_and_captured(evidence: Evidence) -> Iterator[str]:
    if not evidence.has_ledger:
        return
    for order, captured in evidence.rows(
        """
        SELECT call.order_id, (SELECT sum(payment.amount) FROM payment
            WHERE payment.order_id = call.order_id AND operation = 'capture') AS captured
        FROM call JOIN owner ON owner.order_id = call.order_id AND owner.buyer = call.buyer
        WHERE op = 'payment' GROUP BY call.order_id
        HAVING sum(code = 'payment_declined') > 0 AND sum(outcome <> 'fail') = 0
            AND captured IS NOT NULL
        """
    ):
        yield f"every payment of order {order} was declined, and {captured} was captured for it"


def _never_in_that_state(evidence: Evidence) -> Iterator[str]:
    """`order_paid` and the like; past its deadline an order may be called expired."""
    for op, order, code, status in evidence.rows(
        """
        SELECT op, call.order_id, code, opened.status FROM call
        JOIN opened ON opened.id = call.order_id
        JOIN owner ON owner.order_id = call.order_id AND owner.buyer = call.buyer
        CROSS JOIN skew
        WHERE outcome = 'fail' AND code LIKE 'order~_%' ESCAPE '~' AND NOT (
            code = 'order_expired' AND (
                skew.high IS NULL OR pay_before <= call."end" / 1000 + skew.high)
        ) AND NOT EXISTS (
            SELECT 1 FROM state WHERE state.order_id = call.order_id
            AND state.status = substr(code, 7) AND (skew.low IS NULL OR (
                entered <= call."end" / 1000 + skew.high
                AND ("left" IS NULL OR "left" + ? >= call.start / 1000 + skew.low))))
        """,
        _COMMIT,
    ):
        yield f"a {op} of order {order} was refused ({code}), which it was not; it is {status}"


def _not_found(evidence: Evidence) -> Iterator[Problem]:
    for op, order, answered, promised, refused in evidence.rows(
        """
        SELECT call.op, call.order_id, min(promise."end"), promise.rowid, call.rowid FROM call
        JOIN call AS promise ON promise.order_id = call.order_id AND promise.buyer = call.buyer
            AND promise.op = 'order' AND promise.outcome = 'ok' AND promise."end" < call.start
        WHERE call.op IN ('page', 'payment', 'cancel', 'refund') AND call.status = 404
        GROUP BY call.rowid
        """
    ):
        text = f"order {order} was promised at {answered} and not found by its buyer's {op}"
        yield Problem(text, (promised, refused))


def _key_not_reused(evidence: Evidence) -> Iterator[str]:
    for (key,) in evidence.rows(
        """
        SELECT key FROM call WHERE op = 'order' AND key IN (
            SELECT key FROM call WHERE op = 'order' AND code = 'idempotency_key_reused')
        GROUP BY key
        HAVING count(DISTINCT quantity) = 1 AND count(DISTINCT sale) = 1 AND max(cart) = ''
        """
    ):
        yield f"key {key} was refused as used for another purchase, and was used for one only"


def _invalid_and_granted(evidence: Evidence) -> Iterator[Problem]:
    """An overload or the sale's end may be told first; a server error is judged elsewhere.

    To a stranger only an overload: whoever is told that a sale has sold out was taken for a buyer.
    """
    for row, buyer, op, must, status, code in evidence.rows(
        f"""
        SELECT rowid, buyer, op, must, status, code FROM call WHERE must > 0
        AND outcome <> 'info' AND status NOT IN (must, 0, 429) AND code <> 'busy'
        AND (must = 401 OR code NOT IN {_TOLD_FIRST})
        """
    ):
        text = f"an invalid request of {buyer} ({op}) was answered {status} {code}".rstrip()
        yield Problem(f"{text}, and not {must}", (row,))


def _stock_shown(evidence: Evidence) -> Iterator[Problem]:
    """Sold out means that no units are available; open, that some are."""
    for row, sale, status, available in evidence.rows(
        """
        SELECT rowid, sale, shown_status, available FROM call
        WHERE op = 'look' AND outcome = 'ok' AND available IS NOT NULL
        AND shown_status = iif(available > 0, 'sold_out', 'open')
        """
    ):
        text = f"sale {sale} was shown as {status} with {available} units available"
        yield Problem(text, (row,))


def _sale_shown(evidence: Evidence) -> Iterator[str]:
    """Open and sold out mean that the sale is open."""
    for sale, status, start, end in evidence.rows(
        f"""
        SELECT sale, said, since_then, until_then FROM {_SAID}
        WHERE op = 'look' AND outcome = 'ok' AND said IN ('open', 'sold_out') AND NOT EXISTS (
            SELECT 1 FROM possible
            WHERE possible.sale = call.sale AND since <= until_then AND until >= since_then
                AND NOT paused AND max(since, since_then) < ends_at
                AND min(until, until_then) >= starts_at)
        """
    ):
        yield (
            f"sale {sale} was shown as {status} between {moment(start)} and {moment(end)}, when "
            "it was closed"
        )
