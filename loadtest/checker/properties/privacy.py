"""P18: what a buyer sees is their own."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

from loadtest.checker.evidence import Evidence
from loadtest.checker.properties.property import Need, Property
from loadtest.checker.verdict import Finding
from loadtest.shop import Level

# What a buyer can do with an order, or see of it.
_OPS = ("order", "read", "page", "payment", "cancel", "refund", "mail")

# No order, too many requests, no connection.
_BEFORE_IT = (404, 429, 0)


class Privacy(Property):
    """Nobody was shown another buyer's order or changed it, or was told how it stands."""

    id, name, level = "P18", "privacy", Level.STOCK
    needs = Need.PEEPERS
    asks = "No buyer saw or changed another buyer's order, or a link to one."
    fails = "a look-up without the buyer"
    planted = "other buyers order readable"

    def _judge(self, evidence: Evidence) -> Finding:
        attempts = evidence.value(
            f"""
            SELECT count(*) FROM call JOIN owner ON owner.order_id = call.order_id
            WHERE op IN {_OPS} AND call.buyer <> owner.buyer AND outcome <> 'info'
            """
        )
        if not attempts:
            return self.unknown("nobody asked for another buyer's order")
        good = f"{attempts} requests for other buyers' orders, all refused"
        return self.judged(chain(_seen(evidence), _listed(evidence)), good)


def _seen(evidence: Evidence) -> Iterator[str]:
    """To a stranger an order does not exist: any other answer than 404 has told of it.

    Answers that are given before an order is looked up are no answers about it.
    """
    for buyer, op, status, code, order, owner in evidence.rows(
        f"""
        SELECT call.buyer, op, status, code, call.order_id, owner.buyer
        FROM call JOIN owner ON owner.order_id = call.order_id
        WHERE op IN {_OPS} AND call.buyer <> owner.buyer AND (
            outcome = 'ok' OR (outcome = 'fail' AND status NOT IN {_BEFORE_IT} AND code <> 'busy'))
        """
    ):
        yield (
            f"{buyer} was answered {status} {code}".rstrip()
            + f" ({op}) about order {order}, which is {owner}'s"
        )


def _listed(evidence: Evidence) -> Iterator[str]:
    """A page links to the buyer's own orders only."""
    for op, buyer, order, owner in evidence.rows(
        """
        SELECT DISTINCT op, link.buyer, link.order_id, owner.buyer
        FROM link JOIN owner ON owner.order_id = link.order_id
        WHERE link.buyer <> owner.buyer
        """
    ):
        yield f"{buyer} was shown a link ({op}) to order {order}, which is {owner}'s"
