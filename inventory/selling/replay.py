"""What became of an idempotency key."""

from __future__ import annotations

from inventory.models import Reservation
from inventory.outcomes import Granted, KeyReused, Purchase
from inventory.selling.rules import Known


def find(purchase: Purchase) -> Granted | KeyReused | None:
    """What became of a purchase's key: granted before, used for another purchase, or unknown."""
    row = (
        Reservation.objects.filter(buyer=purchase.buyer, key=purchase.key)
        .values_list("pk", "item", "scope", "quantity")
        .first()
    )
    return Known(*row).answer(purchase) if row else None
