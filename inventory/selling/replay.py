"""Look up an idempotency key."""

from __future__ import annotations

from inventory.models import Reservation
from inventory.outcomes import Granted, KeyReused, Purchase
from inventory.selling.rules import Known


def find(purchase: Purchase) -> Granted | KeyReused | None:
    """Return the earlier answer to a purchase's key; None if the key is new."""
    row = (
        Reservation.objects.filter(buyer=purchase.buyer, key=purchase.key)
        .values_list("pk", "item", "scope", "quantity")
        .first()
    )
    return Known(*row).answer(purchase) if row else None
