"""``guard_orm``: the conditional update as most shops write it, one ORM call after the other.

Correct, but it updates the hot row first and holds its lock for the rest of the transaction: five
more round trips, each of which waits for its turn in a busy web process. ``guard`` is the same
transaction with that row last.
"""

from inventory.outcomes import Purchase
from inventory.selling import guard
from lab.strategies.single import SinglePurchase


class GuardOrm(SinglePurchase):
    """Decrement only where enough is left, and check that a row was changed."""

    name = "guard_orm"
    summary = "conditional UPDATE first, then the ORM"

    def take(self, purchase: Purchase) -> None:  # noqa: D102
        guard.take(purchase.item, purchase.quantity)
