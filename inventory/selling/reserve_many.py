"""Reserve several items for one buyer: all or none.

The items' locks and then their rows are acquired in ascending order of item id, as in every
transaction that needs several, which rules out deadlocks in Redis and in the database.
:mod:`inventory.selling.batch` decides each line as it decides any purchase; the first refused line
rolls all of them back.
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
from inventory.selling.measured import measured
from inventory.sold_out.hint import hint

MOST_LINES = 20
"""Lines per cart: other buyers wait for each line's row until the whole cart is committed."""


@dataclass(frozen=True, slots=True)
class LineRefused:
    """Nothing was reserved because of this line.

    Attributes:
        position: of a refused line in the cart.
        outcome: the reason.
    """

    position: int
    outcome: SoldOut | LimitReached | KeyReused


class _Refused(Exception):
    """Carries a refusal out of the transaction, which then rolls back."""

    def __init__(self, refused: LineRefused) -> None:
        self.refused = refused


def line_keys(key: UUID, lines: int) -> list[UUID]:
    """Derive the idempotency keys of a cart's lines from the cart's key.

    The first line uses the cart's key itself, so that no other purchase of the buyer can have it.

    Args:
        key: the cart's key.
        lines: number of lines.
    """
    return [key, *(uuid5(key, str(position)) for position in range(1, lines))]


def reserve_many(
    purchases: Sequence[Purchase], on_granted: OnGranted
) -> list[Granted] | LineRefused:
    """Reserve all of a buyer's purchases in one transaction and commit, or reserve none.

    Args:
        purchases: the lines, of one buyer, each with its own key (see :func:`line_keys`); a
            repeated cart must have the same order.
        on_granted: opens what the shop needs, once for all lines, in the same transaction.

    Returns:
        The grants in the order of the lines, all new or all replayed; or the refused line.

    Raises:
        Busy: the database is unreachable; nothing was written.
        OutcomeUnknown: it may have been sold; a retry with the same keys gets the result.
        guard.NoSuchItem: no such item.
        ValueError: no lines, or too many.
        Exception: any exception of ``on_granted``; nothing was written.
    """
    if not 1 <= len(purchases) <= MOST_LINES:
        raise ValueError(f"a cart has 1 to {MOST_LINES} lines, not {len(purchases)}")
    return measured("cart", lambda: _reserve_twice(purchases, on_granted), _outcome)


def _reserve_twice(
    purchases: Sequence[Purchase], on_granted: OnGranted
) -> list[Granted] | LineRefused:
    tickets = [PurchaseTicket(purchase) for purchase in purchases]
    try:
        return _reserve(tickets, on_granted)
    except IntegrityError:
        # Two requests with one key raced and the other one committed: its result is known now.
        return _reserve(tickets, on_granted)


def _outcome(answer: list[Granted] | LineRefused) -> object:
    return answer.outcome if isinstance(answer, LineRefused) else answer[0]


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
            # A line without an answer repeats the key of another line of the cart.
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
