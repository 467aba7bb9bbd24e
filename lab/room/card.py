"""The result card of a rush: what became of its buyers, and how to check it without this page.

Buyers are counted from what they were told, which is in the history; what was sold is counted from
the database. So the card shows both, and where they differ something is wrong.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

from inventory.audit import audit
from loadtest.history import FAIL, OK, Operation
from shop.catalogue.models import Sale

GOT, SOLD_OUT, REFUSED, NO_ANSWER = "got", "sold_out", "refused", "no_answer"
"""How a rush ends for a buyer. `SOLD_OUT` is also the shop's code for it."""

CHECK = """\
SELECT item.total, item.reserved, item.available,
       (SELECT count(*) FROM inventory_reservation AS r
        WHERE r.item_id = item.id AND r.state <> 'released') AS reservations
FROM inventory_item AS item WHERE item.id = {item};"""
"""What anybody can ask the database; `reserved` must not exceed `total`."""


def buyers_by_end(calls: Iterable[Operation]) -> Counter[str]:
    """Count the buyers who asked for an order by what they were told in the end.

    Whoever has an order got one, whatever other attempts were told. Of the others the last attempt
    counts: a buyer who had no answer and asked again knows what the second answer says.

    Args:
        calls: in the order of their ends, those without an answer last.
    """
    ends: dict[str, str] = {}
    for call in calls:
        if call.op == "order" and ends.get(call.buyer) != GOT:
            ends[call.buyer] = _end(call)
    return Counter(ends.values())


def _end(call: Operation) -> str:
    if call.outcome == OK:
        return GOT
    if call.outcome != FAIL:
        return NO_ANSWER
    return SOLD_OUT if call.code == SOLD_OUT else REFUSED


def result_card(calls: Iterable[Operation], sale: int, *, handovers: int) -> dict[str, Any]:
    """Return the card of a rush that is over.

    Args:
        calls: of its buyers.
        sale: its id.
        handovers: how often an item's lock was granted meanwhile.

    Raises:
        Error: the database does not answer.
        HistoryError: the history cannot be read.
    """
    ends = buyers_by_end(calls)
    item = Sale.objects.select_related("item").get(pk=sale).item
    found = audit([item.pk])
    return {
        "sale": sale,
        "buyers": ends.total(),
        **{name: ends[name] for name in (GOT, SOLD_OUT, REFUSED, NO_ANSWER)},
        "units": item.total,
        "taken": item.reserved,
        "oversold": max(0, item.reserved - item.total),
        "handovers": handovers,
        "problems": found.problems[:3],
        "query": CHECK.format(item=item.pk),
    }
