"""``guard``: the conditional update alone. Correct and simple; one commit per purchase."""

from inventory.outcomes import Purchase
from inventory.selling import guard
from inventory.selling.strategies.single import SinglePurchase


class Guard(SinglePurchase):
    """Decrement only where enough units are left; check whether a row changed."""

    name = "guard"
    summary = "conditional UPDATE, one transaction each"

    def take(self, purchase: Purchase) -> None:  # noqa: D102
        guard.take(purchase.item, purchase.quantity)
