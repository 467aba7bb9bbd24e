"""``combining`` without its guard, for the negative control that turns it off.

It writes back the number that it read minus the units sold, as in a shop that combines purchases
and trusts its lock.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import LiteralString

from inventory.hooks import BEFORE_COMMIT, hooks
from inventory.outcomes import Level, OnGranted, Outcome, Purchase, PurchaseTicket
from inventory.selling import batch
from inventory.selling.commit import committing, execute_and_commit
from inventory.selling.queue import Turn
from inventory.selling.seller import QueueKey
from lab.strategies.combining import Combining

TAKE: LiteralString = """
WITH changed AS (
    UPDATE inventory_item SET available = %(left)s::bigint, version = version + 1
    WHERE id = ANY(%(items)s)
    RETURNING id, available, version
), moved AS (
    INSERT INTO inventory_stockmovement (item_id, delta, reason)
    SELECT id, -%(sold)s::bigint, 'sale' FROM changed
), unenforced AS (
    INSERT INTO lab_unenforceditem (item_id) SELECT id FROM changed ON CONFLICT DO NOTHING
)
SELECT array_agg(id), array_agg(available), array_agg(version), NULL FROM changed
"""


def sell(
    tickets: Sequence[PurchaseTicket],
    on_granted: OnGranted,
    token: int | None = None,
    *,
    locked: bool = False,
) -> dict[int, Level]:
    """Decide on data read without a lock, and overwrite the current value."""
    with committing():
        [seen] = batch.look(tickets, token)
        levels = {seen.item: seen.level}
        if seen.granted:
            for grant, opened in zip(seen.granted, on_granted(seen.granted), strict=True):
                grant.opened = opened
            hooks.failpoint(BEFORE_COMMIT)
            [(_, take), reserve] = batch.taking(seen.granted, token)
            sold = seen.decision.units
            overwrite = {**take, "left": seen.level.available - sold, "sold": sold}
            with execute_and_commit([(TAKE, overwrite), reserve]) as cursor:
                levels = batch.levels_of(cursor, 2)
    seen.decision.answer_repeats()
    return levels


class UnguardedCombining(Combining):
    """Replaces ``combining`` where the lab's environment turns the guard off."""

    summary = "requests combined per process, without the guard: oversells without the lock"
    sell_batch = staticmethod(sell)

    def _serve(self, key: QueueKey, turn: Turn[Purchase, Outcome]) -> None:
        self._sell_locked(key, turn, ())
