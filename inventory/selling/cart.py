"""Reserve several items for one buyer: all or none.

A cart takes no item's lock: the locks serve batches, and one that waits for its second lock would
let all buyers of its first item wait too. It reads without locks, opens what the shop needs, and
takes all units in the message that commits (`inventory.selling.rows_last`). Where that cannot
grant the whole cart, a second transaction locks the items' rows and decides each line as
`inventory.selling.batch` decides any purchase; the first refused line rolls all of them back.

The rows are locked in ascending order of item id, as in every transaction that needs several, which
rules out deadlocks.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from uuid import UUID, uuid5

from django.db import IntegrityError, connection, transaction

from inventory.hooks import AFTER_COMMIT, hooks
from inventory.metrics import count_purchase
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
from inventory.postgresql.base import lend_connections
from inventory.selling import batch, rows_last
from inventory.selling.commit import Attempts, ConditionFailed, committing
from inventory.selling.hint import hint

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
        answer = _reserve_twice(purchases, on_granted)
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
    granted, levels = _lock_and_write([PurchaseTicket(purchase) for purchase in purchases])
    transaction.on_commit(lambda: _publish(levels))
    return granted


def _reserve_twice(
    purchases: Sequence[Purchase], on_granted: OnGranted
) -> list[Granted] | LineRefused:
    tickets = [PurchaseTicket(purchase) for purchase in purchases]
    try:
        return _reserve(tickets, on_granted, rows_locked=False)
    except IntegrityError:
        # Two requests with one key raced and the other one committed: its result is known now.
        return _reserve(tickets, on_granted, rows_locked=True)


def _reserve(
    tickets: Sequence[PurchaseTicket], on_granted: OnGranted, *, rows_locked: bool
) -> list[Granted] | LineRefused:
    """Reserve a cart, with the items' rows locked except, if so asked, in the first attempt."""
    lend_connections()
    try:
        for attempt in Attempts():
            sell, rows_locked = _lock_and_sell if rows_locked else _sell, True
            with attempt:
                granted, levels = sell(tickets, on_granted)
    except NotReserved as refused:
        return refused.refused
    if not granted[0].replayed:
        hooks.failpoint(AFTER_COMMIT)
    _publish(levels)
    return granted


def _sell(
    tickets: Sequence[PurchaseTicket], on_granted: OnGranted
) -> tuple[list[Granted], dict[int, Level]]:
    try:
        with committing():
            if granted := _grant(tickets):
                batch.open_all(granted, on_granted)
                return granted, rows_last.take_and_commit(granted)
    except ConditionFailed:
        pass
    return _lock_and_sell(tickets, on_granted)


def _grant(tickets: Sequence[PurchaseTicket]) -> list[Granted]:
    """Grant the whole cart as far as can be seen without locks; otherwise nothing."""
    rows_last.foresee(tickets)
    granted = [each for ticket in tickets if isinstance(each := ticket.answer, Granted)]
    new = [grant for grant in granted if not grant.replayed]
    return new if len(new) == len(tickets) else []


def _lock_and_sell(
    tickets: Sequence[PurchaseTicket], on_granted: OnGranted
) -> tuple[list[Granted], dict[int, Level]]:
    with committing():
        granted, levels = _lock_and_write(tickets)
        batch.open_all([grant for grant in granted if not grant.replayed], on_granted)
    return granted, levels


def _lock_and_write(
    tickets: Sequence[PurchaseTicket],
) -> tuple[list[Granted], dict[int, Level]]:
    """Lock the items' rows, decide, and write the grants of all lines; or raise `NotReserved`."""
    levels: dict[int, Level] = {}
    for item, lines in rows_last.of_items(tickets).items():
        levels[item] = batch.write(lines, None).level
        # A line without an answer repeats the key of another line of the cart.
        for ticket in lines:
            answer = ticket.answer or KeyReused()
            if isinstance(answer, (SoldOut, LimitReached, KeyReused)):
                raise NotReserved(LineRefused(tickets.index(ticket), answer))
    granted = [each for ticket in tickets if isinstance(each := ticket.answer, Granted)]
    new = [grant for grant in granted if not grant.replayed]
    if new and len(new) < len(granted):
        # Some of these keys were granted before, in another cart.
        raise NotReserved(LineRefused(granted.index(new[0]), KeyReused()))
    return granted, levels


def _publish(levels: Mapping[int, Level]) -> None:
    for item, level in levels.items():
        if level.available == 0:
            hint().publish(item, level)
