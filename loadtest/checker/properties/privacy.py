"""P18: what a buyer sees is their own."""

from __future__ import annotations

from loadtest.checker.properties.property import Check, Need, Property
from loadtest.shop import Level

# What a buyer can do with an order, or see of it.
_OPS = ("order", "read", "page", "payment", "cancel", "refund", "mail")

# No order, too many requests, no connection.
_BEFORE_IT = (404, 429, 0)

# Requests for the orders of others.
_STRANGERS = f"""
    FROM call JOIN owner ON owner.order_id = call.order_id
    WHERE op IN {_OPS} AND call.buyer <> owner.buyer
"""


class Privacy(Property):
    """Nobody was shown another buyer's order or changed it, or was told how it stands.

    To a stranger an order does not exist: any other answer than 404 has told of it. Answers that
    are given before an order is looked up are no answers about it.
    """

    id, name, level = "P18", "privacy", Level.STOCK
    needs = Need.PEEPERS
    asks = "No buyer saw or changed another buyer's order, or a link to one."
    fails = "a look-up without the buyer"
    planted = "other buyers order readable"
    counts = f"SELECT count(*) AS attempts {_STRANGERS} AND outcome <> 'info'"
    good = "{attempts} requests for other buyers' orders, all refused"
    nothing = "nobody asked for another buyer's order"
    checks = (
        Check(
            "{buyer} was answered {answer} ({op}) about order {order}, which is {owner}'s",
            f"""
            SELECT call.buyer, op, rtrim(status || ' ' || code) AS answer,
                   call.order_id AS "order", owner.buyer AS owner, call.rowid AS calls
            {_STRANGERS} AND (outcome = 'ok'
                OR (outcome = 'fail' AND status NOT IN {_BEFORE_IT} AND code <> 'busy'))
            """,
        ),
        Check(
            "{buyer} was shown a link ({op}) to order {order}, which is {owner}'s",
            """
            SELECT DISTINCT op, link.buyer, link.order_id AS "order", owner.buyer AS owner
            FROM link JOIN owner ON owner.order_id = link.order_id
            WHERE link.buyer <> owner.buyer
            """,
        ),
    )
