"""This project's own shop: its paths, its statuses, its fields, and nothing else of the proof."""

from __future__ import annotations

from loadtest.shop import Level

LEVELS = frozenset(Level) - {Level.VOUCHERS}
"""What the shop can be judged on."""


def look_of(sale: str) -> str:
    """Return a command that shows a sale's stock and what holds it, by the shop's own tables."""
    of_state = (
        "(SELECT coalesce(sum(r.quantity - r.returned), 0) FROM inventory_reservation r "
        "WHERE r.item_id = i.id AND r.state = '{}')"
    )
    return (
        'python3 manage.py dbshell -- -c "SELECT i.total, i.available, '
        f"{of_state.format('held')} AS held, {of_state.format('confirmed')} AS confirmed "
        f'FROM inventory_item i JOIN shop_sale s ON s.item_id = i.id WHERE s.id = {sale}"'
    )
