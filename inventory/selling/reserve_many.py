"""Several items for one buyer: all of them, or nothing.

The items' locks and then their rows are taken in ascending order of the items' ids, which is the
order of everybody who takes more than one; so nobody waits in a circle, neither in Redis nor in
the database. Whether a line may be sold is decided as for any other purchase, in
:mod:`inventory.selling.batch`; the first line that may not be sold rolls all of them back.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from uuid import UUID, uuid5

from django.db import IntegrityError

from inventory import failpoints
from inventory.degradable_lock import ITEM_LOCK
from inventory.feature_flags import feature_flags
from inventory.outcomes import (
    Granted,
    KeyReused,
    Level,
    LimitReached,
    OnGranted,
    Purchase,
    PurchaseTicket,
    SoldOut,
)
from inventory.selling import batch
from inventory.selling.commit import commit_with_retry, committing, lend_connections
from inventory.sold_out.hint import hint

MOST_LINES = 20
"""Lines of one cart: each is a row that others wait for until the whole cart is committed."""


@dataclass(frozen=True, slots=True)
class LineRefused:
    """Nothing was reserved, because of this line.

    Attributes:
        position: of the line in the cart; of several that may not be sold, one.
        outcome: why.
    """

    position: int
    outcome: SoldOut | LimitReached | KeyReused


class _Refused(Exception):
    """Carries a refusal out of the transaction, which rolls back what was written so far."""

    def __init__(self, refused: LineRefused) -> None:
        self.refused = refused


def line_keys(key: UUID, lines: int) -> list[UUID]:
    """Idempotency keys for the lines of a cart, from the cart's own.

    The first line has the cart's key, so that no other purchase of the buyer can have it too.

    Args:
        key: the cart's key.
        lines: how many.
    """
    return [key, *(uuid5(key, str(position)) for position in range(1, lines))]


def reserve_many(
    purchases: Sequence[Purchase], on_granted: OnGranted
) -> list[Granted] | LineRefused:
    """Reserve all of a buyer's purchases in one transaction, and commit; or none of them.

    Args:
        purchases: the lines, of one buyer, each with a key of its own (see :func:`line_keys`);
            in the same order whenever the same cart is sent.
        on_granted: opens what the shop needs, once, for all lines, in the same transaction.

    Returns:
        The grants in the order of the lines, all new or all replayed; or the line for which
        nothing was reserved.

    Raises:
        Busy: no database; nothing was written.
        OutcomeUnknown: it may have been sold; the same keys later get the truth.
        guard.NoSuchItem: no such item.
        ValueError: no lines, or too many.
        Exception: what ``on_granted`` raised; nothing was written.
    """
    if not 1 <= len(purchases) <= MOST_LINES:
        raise ValueError(f"a cart has 1 to {MOST_LINES} lines, not {len(purchases)}")
    tickets = [PurchaseTicket(purchase) for purchase in purchases]
    try:
        return _reserve(tickets, on_granted)
    except IntegrityError:
        # Two requests with one key met, and the other one has committed: now it is known.
        return _reserve(tickets, on_granted)


def _reserve(
    tickets: Sequence[PurchaseTicket], on_granted: OnGranted
) -> list[Granted] | LineRefused:
    items = {ticket.request.item for ticket in tickets}
    lend_connections()
    unlocked: dict[int, int | None] = dict.fromkeys(items)
    with ITEM_LOCK.hold_all(items) if feature_flags().lock else nullcontext(unlocked) as tokens:
        failpoints.hit(failpoints.LOCKED)
        try:
            granted, levels = commit_with_retry(
                lambda fenced: _sell(tickets, on_granted, tokens if fenced else unlocked)
            )
        except _Refused as refused:
            return refused.refused
        _publish(levels)
    return granted


def _sell(
    tickets: Sequence[PurchaseTicket], on_granted: OnGranted, tokens: Mapping[int, int | None]
) -> tuple[list[Granted], dict[int, Level]]:
    levels: dict[int, Level] = {}
    with committing():
        for item, lines in _by_item(tickets):
            levels[item] = batch.write(lines, tokens[item]).level
            # A line that a cart's other lines leave without an answer repeats the key of one.
            for ticket in lines:
                if not isinstance(answer := ticket.result() or KeyReused(), Granted):
                    raise _Refused(LineRefused(tickets.index(ticket), answer))
        granted = [each for ticket in tickets if isinstance(each := ticket.answer, Granted)]
        new = [grant for grant in granted if not grant.replayed]
        if new and len(new) < len(granted):
            # Some of these keys were granted before, in another cart.
            raise _Refused(LineRefused(granted.index(new[0]), KeyReused()))
        batch.open_all(new, on_granted)
    if new:
        failpoints.hit(failpoints.AFTER_COMMIT)
    return granted, levels


def _by_item(
    tickets: Sequence[PurchaseTicket],
) -> Iterable[tuple[int, list[PurchaseTicket]]]:
    lines: dict[int, list[PurchaseTicket]] = defaultdict(list)
    for ticket in tickets:
        lines[ticket.request.item].append(ticket)
    return sorted(lines.items())


def _publish(levels: Mapping[int, Level]) -> None:
    for item, level in levels.items():
        if level.available == 0:
            hint().publish(item, level)
