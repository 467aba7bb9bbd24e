"""Reserve an item for several buyers at once, in a given order: the units go to the first of them.

For a shop that knows beforehand who is to have the units, such as the winners of a draw. Requests
that come at the same time are sold by `inventory.selling.seller`, in the order of their arrival.
"""

from __future__ import annotations

from collections.abc import Sequence

from inventory.outcomes import OnGranted, Outcome, Purchase, PurchaseTicket
from inventory.redis import ITEM_LOCK
from inventory.selling import batch
from inventory.selling.commit import Attempts


def reserve_in_order(purchases: Sequence[Purchase], on_granted: OnGranted) -> list[Outcome]:
    """Reserve in one transaction and commit; each purchase is decided by itself, in this order.

    Args:
        purchases: of one item, by different buyers, each with its own key; not empty.
        on_granted: opens what the shop needs, once for all new grants, in the same transaction.

    Returns:
        The outcomes in the order of the purchases. A key that was granted before is replayed.

    Raises:
        Busy: the database is unreachable; nothing was written.
        OutcomeUnknown: it may have been sold; a retry with the same keys gets the result.
        NoSuchItem: no such item.
        Exception: any exception of `on_granted`; nothing was written.
    """
    tickets = [PurchaseTicket(purchase) for purchase in purchases]
    with ITEM_LOCK.hold(purchases[0].item) as token:
        for attempt in Attempts():
            with attempt:
                fence = token if attempt.fenced else None
                batch.sell(tickets, on_granted, fence, locked=attempt.locked)
    outcomes = []
    for ticket in tickets:
        assert ticket.answer is not None
        if isinstance(ticket.answer, BaseException):
            raise ticket.answer
        outcomes.append(ticket.answer)
    return outcomes
