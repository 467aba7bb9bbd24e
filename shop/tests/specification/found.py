"""Stories that once ended badly, as they were printed; each is told again in every run."""

from __future__ import annotations

from typing import Any

Steps = list[tuple[str, dict[str, Any]]]


def opening(**different: Any) -> tuple[str, dict[str, Any]]:
    """Return the first step of a story."""
    usual = {"stock": 4, "limit": 3, "prices": (1_250, 1_990), "resold": True, "currency": "JPY"}
    return "opens", {**usual, "hold": 90, "opens": -5, "eyes": False, **different}


FOUND: dict[str, Steps] = {
    "saving a sale's form moves its opening by part of a second": [
        opening(opens=120),
        ("the_operator_changes", {"sale": 2, "what": "rules", "units": 2}),
        ("time_passes", {"towards": 11, "edge": -1}),
        ("visits", {"who": "Ann", "where": 2}),
    ],
    "a cart is not told that its sold-out units may come back": [
        opening(stock=2, limit=2),
        ("buys", {"who": "Ann", "sale": 0, "units": 2, "again": False}),
        ("uses_a_page", {"who": "Bob", "where": 0, "form": 0, "units": 1, "times": 1}),
        ("uses_a_page", {"who": "Bob", "where": 6, "form": 0, "units": None, "times": 2}),
    ],
    "a late payment keeps the money for a part that was cancelled meanwhile": [
        opening(),
        ("buys", {"who": "Ann", "sale": 0, "units": 2, "again": False}),
        ("paying_takes_a_while", {"which": 0, "meanwhile": "part", "end": "captured"}),
    ],
    "a part of an order that was handed over is returned": [
        opening(eyes=True),
        ("buys", {"who": "Ann", "sale": 0, "units": 3, "again": False}),
        ("changes", {"order": 0, "what": "payment", "stranger": 0}),
        ("the_operator_hands_over", {"order": 0, "then": "part"}),
    ],
    "the form of a part that is sent twice gives two parts back": [
        opening(),
        ("buys", {"who": "Ann", "sale": 0, "units": 3, "again": False}),
        ("changes", {"order": 0, "what": "payment", "stranger": 0}),
        ("uses_a_page", {"who": "Ann", "where": 7, "form": 0, "units": 1, "times": 2}),
    ],
    "a price in yen is multiplied by 100 when it is saved": [
        opening(eyes=True),
        ("the_operator_changes", {"sale": 2, "what": "price", "units": 1}),
    ],
    "messages that wait are taken for mails, and mails that were given up are not counted": [
        opening(eyes=True),
        ("buys", {"who": "Ann", "sale": 0, "units": 2, "again": False}),
        ("time_passes", {"towards": 2, "edge": 0}),
        ("the_operator_looks", {"order": 0}),
        ("the_shop_follows_up", {"times": 1}),
        ("mails_are_given_up", {"by": "an operator"}),
        ("time_passes", {"towards": 2, "edge": 0}),
        ("the_operator_looks", {"order": 0}),
    ],
    "a cart is not counted towards the rate limit": [
        opening(),
        ("buys_a_cart", {"who": "Ann", "units": (1, 1, 0), "again": False}),
        ("hurries", {"who": "Ann"}),
    ],
}
