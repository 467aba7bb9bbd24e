"""``advisory``: a PostgreSQL advisory lock on the item's id, held until the transaction ends.

PostgreSQL releases the lock after the commit is visible or when the connection dies, so it needs no
lease and no fencing token. But each waiting buyer occupies a connection, as for the row itself, and
the lock does not stop a writer that does not acquire it; so the strategy also uses the guard.
"""

from django.db import connection

from inventory.outcomes import Purchase
from inventory.selling import guard
from lab.strategies.single import SinglePurchase

# All programs share one space of 64-bit lock numbers; a hashed name avoids collisions with theirs.
LOCK = "SELECT pg_advisory_xact_lock(hashtextextended('inventory.item', %s))"


class Advisory(SinglePurchase):
    """Take the item's advisory lock, then go through the guard."""

    name = "advisory"
    summary = "PostgreSQL advisory lock, then the conditional UPDATE"

    def take(self, purchase: Purchase) -> None:  # noqa: D102
        with connection.cursor() as cursor:
            cursor.execute(LOCK, [purchase.item])
        guard.take(purchase.item, purchase.quantity)
