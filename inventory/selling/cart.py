"""Reserve several items for one buyer: all or none.

A cart takes no item's lock: the locks serve batches, and one that waits for its second lock would
let all buyers of its first item wait too. It reads without locks, opens what the shop needs, and
takes all units in the message that commits (`inventory.selling.batch`). Where that cannot grant the
whole cart, it looks again with the items' rows locked; a refused line rolls the others back.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID, uuid5

from django.db import connection, transaction

from inventory.hooks import AFTER_COMMIT, hooks
from inventory.metrics import count_purchase
from inventory.outcomes import (
    Granted,
    KeyReused,
    LimitReached,
    OnGranted,
    Purchase,
    PurchaseTicket,
    SoldOut,
)
from inventory.postgresql.base import lend_connections
from inventory.selling import batch
from inventory.selling.commit import Attempts, committing, execute_together

MAX_LINES = 20
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


class NotReserved(Exception):
    """Carries a refusal out of the transaction, which must roll back.

    Attributes:
        refused: the line that was refused, and the reason.
    """

    def __init__(self, refused: LineRefused) -> None:
        super().__init__(f"line {refused.position + 1}: {refused.outcome}")
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
        purchases: the lines, of one buyer, each with its own key (see `line_keys`); a
            repeated cart must have the same order.
        on_granted: opens what the shop needs, once for all lines, in the same transaction.

    Returns:
        The grants in the order of the lines, all new or all replayed; or the refused line.

    Raises:
        Busy: the database is unreachable; nothing was written.
        OutcomeUnknown: it may have been sold; a retry with the same keys gets the result.
        NoSuchItem: no such item.
        ValueError: no lines, or too many.
        Exception: any exception of `on_granted`; nothing was written.
    """
    if not 1 <= len(purchases) <= MAX_LINES:
        raise ValueError(f"a cart has 1 to {MAX_LINES} lines, not {len(purchases)}")
    began = time.perf_counter()
    try:
        answer = _reserve(purchases, on_granted)
    except BaseException as error:
        count_purchase("cart", began, error)
        raise
    outcome = answer.outcome if isinstance(answer, LineRefused) else answer[0]
    count_purchase("cart", began, outcome)
    return answer


def reserve_inside(purchases: Sequence[Purchase]) -> list[Granted]:
    """Reserve purchases in the caller's transaction, for a shop whose checkout has its own.

    The items' rows are locked from here to the caller's commit, so call it last. Other buyers of
    these items wait meanwhile, and no two purchases share a commit: `reserve` and `reserve_many`
    sell more per second.

    Args:
        purchases: each with its own key.

    Returns:
        The grants, in the order of the purchases.

    Raises:
        NotReserved: one was refused; the caller's transaction must roll back.
        NoSuchItem: no such item.
        TransactionManagementError: there is no transaction.
    """
    if not connection.in_atomic_block:
        raise transaction.TransactionManagementError("this runs in its caller's transaction")
    tickets = [PurchaseTicket(purchase) for purchase in purchases]
    granted, new = _grant(tickets, locked=True)
    if new:
        execute_together(batch.taking(new)).close()
    return granted


def _reserve(purchases: Sequence[Purchase], on_granted: OnGranted) -> list[Granted] | LineRefused:
    tickets = [PurchaseTicket(purchase) for purchase in purchases]
    lend_connections()
    try:
        for attempt in Attempts():
            with attempt:
                granted, written = _sell(tickets, on_granted, locked=attempt.locked)
    except NotReserved as refused:
        return refused.refused
    if written:
        hooks.failpoint(AFTER_COMMIT)
    return granted


def _sell(
    tickets: Sequence[PurchaseTicket], on_granted: OnGranted, *, locked: bool
) -> tuple[list[Granted], bool]:
    """Return the grants, and whether any was written."""
    with committing():
        try:
            granted, new = _grant(tickets, locked=locked)
        except NotReserved:
            if locked:
                raise
            locked = True
            granted, new = _grant(tickets, locked=True)
        if new:
            batch.open_and_commit(new, on_granted, locked=locked)
    return granted, bool(new)


def _grant(
    tickets: Sequence[PurchaseTicket], *, locked: bool
) -> tuple[list[Granted], list[Granted]]:
    """Grant all lines, or raise `NotReserved`; return the grants, and those of new keys."""
    batch.look(tickets, locked=locked)
    granted: list[Granted] = []
    for position, ticket in enumerate(tickets):
        # A line without an answer repeats the key of another line of its item.
        answer = ticket.answer or KeyReused()
        if isinstance(answer, (SoldOut, LimitReached, KeyReused)):
            raise NotReserved(LineRefused(position, answer))
        assert isinstance(answer, Granted)
        if any(answer.purchase.key == other.purchase.key for other in granted):
            raise NotReserved(LineRefused(position, KeyReused()))
        granted.append(answer)
    new = [grant for grant in granted if not grant.replayed]
    if new and len(new) < len(granted):
        # Some of these keys were granted before, in another cart.
        raise NotReserved(LineRefused(granted.index(new[0]), KeyReused()))
    return granted, new
