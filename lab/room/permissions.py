"""The permission that each action of the control room and of the duel asks for."""

from __future__ import annotations

from django.contrib.auth.models import AbstractBaseUser, AnonymousUser, PermissionsMixin

SEND_BUYERS, BREAK_PARTS = "lab.send_buyers", "lab.break_parts"
"""Those of no table; `lab.models.ControlRoom` declares them."""

PERMISSIONS = {
    "watch": "shop.view_sale",
    "rush": SEND_BUYERS,
    "stop": SEND_BUYERS,
    "duel": SEND_BUYERS,
    "again": SEND_BUYERS,
    "restock": "inventory.change_item",
    "pause": "shop.change_sale",
    "strategy": "lab.change_salestrategy",
    "inject": BREAK_PARTS,
    "heal": BREAK_PARTS,
    "provider": BREAK_PARTS,
}
"""By the action's name. Everybody of staff may look."""


def actions_of(user: AbstractBaseUser | AnonymousUser) -> frozenset[str]:
    """Return the names of the actions that a user may carry out."""
    if not isinstance(user, PermissionsMixin):
        return frozenset()
    return frozenset(name for name, needed in PERMISSIONS.items() if user.has_perm(needed))
