"""``advisory``: a lock of PostgreSQL's on the item's number, held until the transaction ends.

PostgreSQL lets go of it after the commit is visible, and when the connection dies; no lease, no
fencing token needed. But every waiting buyer waits with a connection, as for the row itself, and
whoever writes without asking for the lock is not kept out: hence the guard all the same.
"""

from django.db import connection

from inventory.outcomes import Purchase
from inventory.selling import guard
from inventory.selling.strategies.single import SinglePurchase

# Advisory locks of all programs share one space of 64-bit numbers; hashing a name of ours into it
# keeps out of the others' way.
LOCK = "SELECT pg_advisory_xact_lock(hashtextextended('inventory.item', %s))"


class Advisory(SinglePurchase):
    """Take the item's advisory lock, then go through the guard."""

    name = "advisory"
    summary = "PostgreSQL advisory lock, then the conditional UPDATE"

    def take(self, purchase: Purchase) -> None:  # noqa: D102
        with connection.cursor() as cursor:
            cursor.execute(LOCK, [purchase.item])
        guard.take(purchase.item, purchase.quantity)
