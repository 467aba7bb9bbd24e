"""One purchase per transaction: a commit that ends late."""

from __future__ import annotations

import pytest

from inventory.outcomes import Granted
from inventory.selling.commit import CommitUnknown
from inventory.tests.helpers import book, new_purchase, open_nothing
from lab.strategies.guarded import Guard
from lab.strategies.row_lock import RowLock

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.mark.parametrize(
    ("kind", "look_up", "nothing"),
    [
        (Guard, "inventory.selling.batch.known_and_used", ({}, {})),
        (RowLock, "lab.strategies.single.find", None),
    ],
)
def test_a_commit_that_ends_late_is_not_answered_as_sold_out(
    kind, look_up, nothing, stock, monkeypatch
):
    """The first attempt's commit becomes visible only after the second has looked up the key."""
    item = stock(1)
    strategy, mine = kind(), new_purchase(item)
    sell_once = strategy._sell_once
    committed: list[object] = []

    def commit_unseen(purchase, on_granted):
        if not committed:
            committed.append(sell_once(purchase, on_granted))
            raise CommitUnknown("the answer was cut off")
        with monkeypatch.context() as too_early:
            too_early.setattr(look_up, lambda _: nothing)
            return sell_once(purchase, on_granted)

    monkeypatch.setattr(strategy, "_sell_once", commit_unseen)
    answer = strategy.sell(mine, open_nothing)
    assert isinstance(answer, Granted)
    assert (answer.replayed, book(item).held) == (True, 1)
