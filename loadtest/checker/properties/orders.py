"""P3, P4 and P5: every answer against the orders in the final snapshot."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

from loadtest.checker.evidence import Evidence
from loadtest.checker.properties.property import Problem, Property, texts
from loadtest.checker.verdict import Finding
from loadtest.shop import Level


class NoLostOrder(Property):
    """Every key that was answered ok has its order, or its part, as it was asked for."""

    id, name, level = "P3", "no lost order", Level.STOCK
    asks = "Every confirmed order, and every part that was given back, is in the database."
    fails = "answering before the commit; a database that loses commits"
    planted = "order lost"

    def _judge(self, evidence: Evidence) -> Finding:
        number = evidence.value("SELECT count(*) FROM purchase WHERE outcome = 'ok'")
        return self.judged(_lost(evidence), f"all {number} promised orders are there")


def _lost(evidence: Evidence) -> Iterator[str]:
    for key, promised, quantity, found, found_quantity, sale, found_sale in evidence.rows(
        """
        SELECT purchase.key, purchase.order_id, purchase.quantity, o.id, o.quantity,
            purchase.sale, o.sale
        FROM purchase LEFT JOIN "order" AS o ON o.snapshot = 0 AND o.key = purchase.key
        WHERE outcome = 'ok' AND (o.id IS NULL OR o.quantity <> purchase.quantity
            OR o.sale IS NOT purchase.sale)
        """
    ):
        if found is None:
            yield f"order {promised} was promised for key {key} and is not there"
        else:
            yield (
                f"key {key} asked for {quantity} of sale {sale}, order {found} is for "
                f"{found_quantity} of sale {found_sale}"
            )

    for order, op, quantity, told, found in _parts(evidence, "outcome = 'ok'"):
        if told > found:
            yield (
                f"order {order}: {told} different parts of {quantity} were answered ok ({op}), "
                f"and {found} were given back"
            )


def _parts(evidence: Evidence, outcomes: str) -> Iterator[tuple[str, str, int, int, int]]:
    """Parts of an order, of one size: asked for under different keys, and given back."""
    yield from evidence.rows(
        f"""
        SELECT order_id, op, quantity, sum(asked), sum(found) FROM (
            SELECT order_id, op, quantity, count(DISTINCT key) AS asked, 0 AS found FROM call
            WHERE op IN ('cancel', 'refund') AND quantity > 0 AND {outcomes}
            GROUP BY order_id, op, quantity
            UNION ALL
            SELECT order_id, iif(name = 'part_cancelled', 'cancel', 'refund'), quantity, 0,
                   count(*)
            FROM event WHERE name IN ('part_cancelled', 'part_returned')
            GROUP BY order_id, name, quantity
        ) GROUP BY order_id, op, quantity HAVING sum(asked) <> sum(found)
        """
    )


class NoPhantomOrder(Property):
    """Every order's key was sent and not refused; so was that of everything held."""

    id, name, level = "P4", "no phantom order", Level.STOCK
    asks = "No buyer has an order that they did not request or that was refused."
    fails = "answering “failed” when the outcome is unknown"
    planted = "order of a refused key"

    def _judge(self, evidence: Evidence) -> Finding:
        number = evidence.value('SELECT count(*) FROM "order" WHERE snapshot = 0')
        return self.judged(_phantoms(evidence), f"all {number} orders were asked for")


def _phantoms(evidence: Evidence) -> Iterator[str]:
    for what, identity, key, outcome in evidence.rows(
        """
        SELECT what, found.id, found.key, purchase.outcome FROM (
            SELECT 'order' AS what, id, key FROM "order" WHERE snapshot = 0 UNION ALL
            SELECT 'reservation', id, key FROM reservation
            WHERE snapshot = 0 AND state <> 'released'
        ) AS found
        LEFT JOIN purchase ON purchase.key = found.key
        WHERE purchase.outcome IS NULL OR purchase.outcome = 'fail'
        """
    ):
        told = "was refused" if outcome else "was never sent"
        yield f"{what} {identity}: its key {key} {told}"
    for reservation, key in evidence.rows(
        """
        SELECT id, key FROM reservation AS r WHERE snapshot = 0 AND state <> 'released'
        AND NOT EXISTS (SELECT 1 FROM "order" AS o WHERE o.snapshot = 0 AND o.key = r.key)
        """
    ):
        yield f"reservation {reservation} of key {key} is held for no order"


class NoDuplicate(Property):
    """One order, part and answer per key, one account per buyer, and none above the limit."""

    id, name, level = "P5", "no duplicate", Level.REPEATS
    asks = "Repeats with the same key gave one order or part, and no buyer got more than the limit."
    fails = "retries and double clicks that buy twice"
    planted = "second order for a key"

    def _judge(self, evidence: Evidence) -> Finding:
        replays = evidence.value("SELECT coalesce(sum(oks - 1), 0) FROM purchase WHERE oks > 1")
        problems = chain(texts(self.so_far(evidence)), _duplicates(evidence))
        return self.judged(problems, f"{replays} repeated answers, all the same")

    def so_far(self, evidence: Evidence) -> Iterator[Problem]:
        """Answers to a key that contradict each other.

        Whether a key was refused for another purchase is not sure before all of its are known.
        """
        yield from _answered_twice(evidence)
        yield from _refused_after(evidence, "call.code <> 'idempotency_key_reused'")


def _answered_twice(evidence: Evidence) -> Iterator[Problem]:
    for key, one, other, first, second in evidence.rows(
        """
        SELECT purchase.key, purchase.order_id, other_order_id,
            min(call.rowid) FILTER (WHERE call.order_id = purchase.order_id),
            min(call.rowid) FILTER (WHERE call.order_id = other_order_id)
        FROM purchase JOIN call ON call.key = purchase.key AND op = 'order' AND call.outcome = 'ok'
        WHERE purchase.order_id <> other_order_id GROUP BY purchase.key
        """
    ):
        text = f"key {key} was answered with order {one} and with order {other}"
        yield Problem(text, (first, second))


def _refused_after(evidence: Evidence, those: str) -> Iterator[Problem]:
    """A confirmation is final: the same purchase, sent again, is answered with the same order."""
    for key, order, code, first, refused in evidence.rows(
        f"""
        SELECT call.key, purchase.order_id, call.code, min(promise.rowid), call.rowid
        FROM call JOIN purchase ON purchase.key = call.key
        JOIN call AS promise ON promise.key = call.key AND promise.op = 'order'
            AND promise.outcome = 'ok' AND promise."end" = purchase.answered
        WHERE call.op = 'order' AND call.outcome = 'fail'
            AND call.status IN (403, 404, 409, 410, 422) AND call.start > purchase.answered
            AND {those}
        GROUP BY call.rowid
        """
    ):
        text = f"key {key} was refused ({code}) after it had been answered with order {order}"
        yield Problem(text, (first, refused))


# A key that was used for one purchase only.
_NOT_REUSED = """call.code = 'idempotency_key_reused'
    AND call.quantity = purchase.quantity AND call.sale = purchase.sale"""


def _duplicates(evidence: Evidence) -> Iterator[str]:
    for table in ("order", "reservation"):
        for key, number in evidence.rows(
            f"""SELECT key, count(*) FROM "{table}" WHERE snapshot = 0
            GROUP BY key HAVING count(*) > 1"""
        ):
            yield f"key {key} has {number} {table}s"
    for reservation, number in evidence.rows(
        """
        SELECT reservation, count(*) FROM "order" WHERE snapshot = 0
        GROUP BY reservation HAVING count(*) > 1
        """
    ):
        yield f"reservation {reservation} has {number} orders"
    for key, promised, found in evidence.rows(
        """
        SELECT purchase.key, purchase.order_id, o.id FROM purchase
        JOIN "order" AS o ON o.snapshot = 0 AND o.key = purchase.key WHERE purchase.order_id <> o.id
        """
    ):
        yield f"key {key} was answered with order {promised} and has order {found}"
    yield from texts(_refused_after(evidence, _NOT_REUSED))
    for order, op, quantity, asked, found in _parts(evidence, "outcome <> 'fail'"):
        if found > asked:
            yield (
                f"order {order}: {found} parts of {quantity} were given back ({op}), and asked "
                f"for under {asked} different keys"
            )
    yield from _mixed_up_buyers(evidence)
    yield from _above_limit(evidence)


def _mixed_up_buyers(evidence: Evidence) -> Iterator[str]:
    """The shop may call a buyer by another name, but always by the same one."""
    for client, one, other in evidence.rows(
        "SELECT client, min(shop), max(shop) FROM pair GROUP BY client HAVING count(*) > 1"
    ):
        yield f"orders of buyer {client} belong to {one} and to {other}"
    for shop, one, other in evidence.rows(
        "SELECT shop, min(client), max(client) FROM pair GROUP BY shop HAVING count(*) > 1"
    ):
        yield f"orders of {one} and of {other} belong to the same buyer {shop}"


def _above_limit(evidence: Evidence) -> Iterator[str]:
    for buyer, sale, quantity, limit in evidence.rows(
        """
        SELECT o.buyer, sale.id, sum(r.quantity - r.returned) AS quantity, sale."limit"
        FROM "order" AS o
        JOIN reservation AS r ON r.snapshot = o.snapshot AND r.id = o.reservation
            AND r.state <> 'released'
        JOIN sale ON sale.snapshot = o.snapshot AND sale.id = o.sale AND sale."limit" > 0
        GROUP BY o.snapshot, o.buyer, sale.id HAVING sum(r.quantity - r.returned) > sale."limit"
        """
    ):
        yield f"buyer {buyer} has {quantity} of sale {sale}, whose limit is {limit}"
