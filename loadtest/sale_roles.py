"""The sales of a run by their roles: what each is opened with, and which mix needs which.

A behaviour asks for a sale by its role. What is tested in it decides its terms: a short time to pay
where orders are to expire, a high limit where quantities race, odd prices where they must add up.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

MAIN, CART_A, CART_B = "main", "cart_a", "cart_b"
LIMITED, BRIEF, TIMED, DRAWN = "limited", "brief", "timed", "drawn"
ON_PAGE = "on_page"


@dataclass(frozen=True, slots=True)
class SaleTerms:
    """What a fresh sale is opened with.

    Attributes:
        stock: units.
        limit: units per buyer.
        strategy: how it is sold.
        price: of one unit, in minor units.
        hold: seconds to pay.
        action_hold: seconds for the buyer's part of a payment, from its beginning.
        restock_cancelled: whether units of cancelled orders are sold again.
        restock_returned: whether units of returned orders are sold again.
        draw: seconds after the main sale's opening until which buyers enter a draw; 0: it is none.
    """

    stock: int
    limit: int
    strategy: str
    price: int = 99_900
    hold: float = 900.0
    action_hold: float = 600.0
    restock_cancelled: bool = True
    restock_returned: bool = True
    draw: float = 0.0


# The stock as a multiple of the main sale's, and the terms that are not those of the main sale.
_ROLES: Mapping[str, tuple[float, Mapping[str, Any]]] = {
    MAIN: (1.0, {}),
    # So few that carts are refused for one line of several.
    CART_A: (0.5, {"price": 1_237}),
    CART_B: (0.5, {"price": 50_049}),
    # Quantities race for it, and parts of it come back.
    LIMITED: (2.0, {"limit": 10, "price": 333, "restock_returned": False}),
    # So few that buyers have to wait for what others do not pay for.
    BRIEF: (0.4, {"limit": 3, "price": 2_501, "hold": 3.0, "restock_cancelled": False}),
    # Its buyers pay on the provider's page. A payment is a dozen requests between buyer, shop and
    # provider: in less time, a busy machine would expire all of them.
    ON_PAGE: (0.4, {"limit": 3, "price": 4_999, "hold": 20.0, "action_hold": 20.0}),
    # So many that it is closed while units are left.
    TIMED: (12.0, {"limit": 10, "price": 7_919}),
    # So few that most who enter do not win, and so long that faults come in its last seconds.
    DRAWN: (0.4, {"limit": 1, "price": 4_321, "hold": 6.0, "draw": 25.0}),
}

_OF_MIX: Mapping[str, tuple[str, ...]] = {
    "carts": (MAIN, CART_A, CART_B),
    "limits": (MAIN, LIMITED),
    "windows": (MAIN, TIMED),
    "holds": (MAIN, BRIEF),
    "walkers": (MAIN, ON_PAGE),
    "parts": (MAIN, LIMITED, BRIEF),
    "entrants": (MAIN, DRAWN),
    "all": tuple(_ROLES),
}


def roles_for(mix: str) -> tuple[str, ...]:
    """The roles of the sales that a mix needs; the main one comes first."""
    return _OF_MIX.get(mix, (MAIN,))


def terms_of(role: str, main: SaleTerms) -> SaleTerms:
    """The terms of the sale in a role, next to a main sale with these terms."""
    share, others = _ROLES[role]
    return replace(main, **{"stock": max(1, round(main.stock * share)), **others})


def parse_sales(text: str) -> dict[str, str]:
    """Read `cart_a=7,brief=8`: the ids of further sales by their roles.

    Raises `ValueError` for an unknown role or one that is named twice.
    """
    sales: dict[str, str] = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        role, _, sale = part.partition("=")
        if role not in _ROLES or role == MAIN or role in sales or not sale:
            raise ValueError(f"{part!r} is not a role and a sale's id, such as cart_a=7")
        sales[role] = sale
    return sales


def format_sales(sales: Mapping[str, str]) -> str:
    """Write what `parse_sales` reads."""
    return ",".join(f"{role}={sale}" for role, sale in sales.items())
