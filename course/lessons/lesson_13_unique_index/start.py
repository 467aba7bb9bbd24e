"""Lesson 13, broken: look for the refund, then record it under a number of its own.

Flaw: two workers look before either has recorded, and both pay.
"""

import uuid
from typing import Any


class RefundOnce:
    """`connection` is a psycopg connection in autocommit mode.

    The tables are `refund` (order_id, the primary key, and amount) and `refund_log` (refund_id, the
    primary key, order_id, amount).
    """

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    def refund(self, order: str, amount: int) -> bool:
        """Record the refund of an order; return whether it is new.  Pay out only if it is."""
        found = self._connection.execute(
            "SELECT refund_id FROM refund_log WHERE order_id = %s", (order,)
        )
        if found.rowcount:
            return False
        self._connection.execute(
            "INSERT INTO refund_log (refund_id, order_id, amount) VALUES (%s, %s, %s)",
            (uuid.uuid4().hex, order, amount),
        )
        return True
