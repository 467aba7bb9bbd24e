"""``combining``: the default. Requests queue in their process, processes at the item's lock, and
the holder sells to its whole queue in one guarded transaction.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import NamedTuple, Self

from django.db import Error

from inventory import conf, failpoints
from inventory.feature_flags import feature_flags
from inventory.metrics import metrics
from inventory.outcomes import (
    Busy,
    Declined,
    Level,
    OnGranted,
    Outcome,
    OutcomeUnknown,
    Purchase,
    SoldOut,
    StaleToken,
)
from inventory.selling import batch, guard
from inventory.selling.combiner import Combiner, Take
from inventory.selling.commit import lend_connections
from inventory.selling.commit_with_retry import commit_with_retry
from inventory.selling.item_lock import ItemLocks, item_locks
from inventory.selling.strategies.base import Strategy
from inventory.sold_out.buyers import BuyersOfItem
from inventory.sold_out.hint import Hint, hint

Answer = Outcome | Exception


class Line(NamedTuple):
    """What can be served together: one item, opened by the same function."""

    item: int
    on_granted: OnGranted


class Combining(Strategy):
    """Collect, lock once, commit together.

    Args:
        item_locks: the items' locks.
        hint: the sold-out hints.
    """

    name = "combining"
    fenced = True
    summary = "requests combined a process, one guarded transaction for all of them"

    def __init__(self, item_locks: ItemLocks, hint: Hint) -> None:
        self._item_locks = item_locks
        self._hint = hint
        self._holders = BuyersOfItem()
        # Items that ran out, as far as this process knows: only then is the hint worth a look.
        self._ran_out: set[int] = set()
        self._combiner: Combiner[Purchase, Outcome] = Combiner(
            self._serve,
            max_batch=conf.MAX_BATCH.get(),
            max_waiting=conf.MAX_WAITING.get(),
            max_wait=conf.MAX_WAIT.get(),
        )

    @classmethod
    def make(cls) -> Self:  # noqa: D102
        return cls(item_locks(), hint())

    def sell(self, purchase: Purchase, on_granted: OnGranted) -> Outcome:  # noqa: D102
        lend_connections()
        return self._combiner.submit(Line(purchase.item, on_granted), purchase)

    def _serve(self, name: Hashable, take: Take[Purchase]) -> Sequence[Answer]:
        assert isinstance(name, Line)
        wishes: Sequence[Purchase] = ()
        refused: dict[int, SoldOut] = {}
        if feature_flags().admission and name.item in self._ran_out:
            wishes = take()
            refused = self._refuse_by_hint(name.item, wishes)
            if len(refused) == len(wishes):
                metrics.count("refused_by_hint", len(refused))
                return list(refused.values())
        if not feature_flags().lock:
            return self._sell(name, wishes or take(), refused, token=None)
        with self._item_locks.hold(name.item) as token:
            failpoints.hit(failpoints.LOCKED)
            # Taken only now: whoever came while the lock was waited for is in the batch.
            return self._sell(name, wishes or take(), refused, token)

    def _refuse_by_hint(self, item: int, wishes: Sequence[Purchase]) -> dict[int, SoldOut]:
        """Positions that may be refused at once, all of them read after they had queued."""
        level = self._hint.read(item)
        if level is None or level.available > 0:
            self._ran_out.discard(item)
            return {}
        try:
            holders = self._holders.of(item, level)
        except Error:
            return {}
        if holders is None:
            return {}
        return {
            position: SoldOut(0)
            for position, wish in enumerate(wishes)
            if wish.buyer not in holders
        }

    def _sell(
        self,
        line: Line,
        wishes: Sequence[Purchase],
        refused: dict[int, SoldOut],
        token: int | None,
    ) -> Sequence[Answer]:
        rest = [wish for position, wish in enumerate(wishes) if position not in refused]
        metrics.count("batches")
        metrics.count("batched", len(rest))
        sold = iter(self._sell_or_split(rest, line, token))
        return [refused.get(position) or next(sold) for position in range(len(wishes))]

    def _sell_or_split(
        self, wishes: Sequence[Purchase], line: Line, token: int | None
    ) -> list[Answer]:
        """Sell a batch; if one row fails, halve it until the others are sold without it."""
        try:
            return list(self._sell_with_retry(wishes, line, token))
        except (Busy, OutcomeUnknown, StaleToken, guard.NoSuchItem) as error:
            return [error] * len(wishes)
        except Declined as declined:
            return self._sell_without(declined, wishes, line, token)
        except Exception as error:  # noqa: BLE001  # each buyer is told its own
            if len(wishes) == 1:
                return [error]
            metrics.count("batches_split")
            middle = len(wishes) // 2
            return [
                *self._sell_or_split(wishes[:middle], line, token),
                *self._sell_or_split(wishes[middle:], line, token),
            ]

    def _sell_without(
        self, declined: Declined, wishes: Sequence[Purchase], line: Line, token: int | None
    ) -> list[Answer]:
        """Sell to those whose scope was not declined; halving would try each alone."""
        others = [wish for wish in wishes if wish.scope not in declined.scopes]
        if len(others) == len(wishes):
            raise AssertionError("declined, but none of these") from declined
        sold = iter(self._sell_or_split(others, line, token) if others else ())
        return [declined if wish.scope in declined.scopes else next(sold) for wish in wishes]

    def _sell_with_retry(
        self, wishes: Sequence[Purchase], line: Line, token: int | None
    ) -> Sequence[Outcome]:
        outcomes, level = commit_with_retry(
            lambda fenced: batch.sell(wishes, line.on_granted, token if fenced else None)
        )
        self._sold(line.item, wishes, outcomes, level)
        lend_connections()
        return outcomes

    def _sold(
        self,
        item: int,
        wishes: Sequence[Purchase],
        outcomes: Sequence[Outcome],
        level: Level,
    ) -> None:
        """A batch has been committed; nobody has been told yet."""
        if level.available == 0:
            self._ran_out.add(item)
            self._hint.publish(item, level)
