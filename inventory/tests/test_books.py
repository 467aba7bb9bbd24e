"""The database enforces its rules: it refuses wrong raw SQL at the commit."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import uuid4

import pytest
from django.db import transaction
from psycopg import errors

from inventory import services
from inventory.audit import audit
from inventory.models import BuyerQuota, Item, Reservation, StockMovement
from inventory.outcomes import Granted
from inventory.tests.helpers import (
    book,
    books_not_enforced,
    new_purchase,
    open_nothing,
    outsider,
    problems,
    sell,
)

pytestmark = pytest.mark.django_db(transaction=True)

TAKE_ONE = "UPDATE inventory_item SET available = available - 1 WHERE id = %(item)s"
GIVE_ONE = "UPDATE inventory_item SET available = available + 1 WHERE id = %(item)s"
NOTE_SALE = (
    "INSERT INTO inventory_stockmovement (item_id, delta, reason) VALUES (%(item)s, -1, 'sale')"
)
NOTE_RETURN = (
    "INSERT INTO inventory_stockmovement (item_id, delta, reason) VALUES (%(item)s, 1, 'release')"
)
RESERVE_ONE = """
INSERT INTO inventory_reservation (item_id, scope, buyer, key, quantity, state, deadline)
VALUES (%(item)s, 1, 1, %(key)s, 1, 'held', now())
"""
RELEASE = "UPDATE inventory_reservation SET state = 'released' WHERE id = %(reservation)s"


@pytest.fixture
def item() -> int:
    """Five units; buyer 1 holds two, with a limit of three."""
    pk: int = services.stock("phone", 5).pk
    outcome = sell(new_purchase(pk, 1, 2, limit=3))
    assert isinstance(outcome, Granted)
    return pk


def run(item: int, statements: Sequence[str]) -> None:
    """Run statements in one transaction of a session outside Django."""
    reservation = Reservation.objects.values_list("pk", flat=True).get(item=item)
    parameters = {"item": item, "reservation": reservation, "key": uuid4()}
    with outsider() as session, session.transaction():
        for statement in statements:
            session.execute(statement.encode(), parameters)


REFUSED = {
    "less than none available": (
        ["UPDATE inventory_item SET available = -1 WHERE id = %(item)s"],
        errors.CheckViolation,
        "available_not_negative",
    ),
    "more available than the total": (
        ["UPDATE inventory_item SET available = 6 WHERE id = %(item)s"],
        errors.CheckViolation,
        "available_within_total",
    ),
    "units taken without a reservation": (
        [TAKE_ONE, NOTE_SALE],
        errors.CheckViolation,
        "is not total",
    ),
    "a reservation without taking its units": (
        [RESERVE_ONE],
        errors.CheckViolation,
        "is not total",
    ),
    "the ledger forgotten": (
        [TAKE_ONE, RESERVE_ONE],
        errors.CheckViolation,
        "the ledger says",
    ),
    "a movement of nothing": ([NOTE_SALE], errors.CheckViolation, "the ledger says"),
    "stock restored though the reservation is live": (
        [GIVE_ONE, GIVE_ONE, NOTE_RETURN, NOTE_RETURN],
        errors.CheckViolation,
        "is not total",
    ),
    "stock restored twice": (
        [RELEASE, *[GIVE_ONE, NOTE_RETURN] * 4],
        errors.CheckViolation,
        "available_within_total",
    ),
    "a release without its stock": ([RELEASE], errors.CheckViolation, "is not total"),
    "a quantity that grows afterwards": (
        ["UPDATE inventory_reservation SET quantity = 3 WHERE id = %(reservation)s"],
        errors.CheckViolation,
        "is not total",
    ),
    "a live reservation deleted": (
        ["DELETE FROM inventory_reservation WHERE id = %(reservation)s"],
        errors.CheckViolation,
        "is not total",
    ),
    "a reservation of nothing": (
        ["UPDATE inventory_reservation SET quantity = 0 WHERE id = %(reservation)s"],
        errors.CheckViolation,
        "quantity_positive",
    ),
    "an unknown state": (
        ["UPDATE inventory_reservation SET state = 'lost' WHERE id = %(reservation)s"],
        errors.CheckViolation,
        "state_known",
    ),
    "a total that moves without a restock": (
        ["UPDATE inventory_item SET total = total + 1 WHERE id = %(item)s"],
        errors.CheckViolation,
        "is not total",
    ),
    "a fence that falls": (
        ["UPDATE inventory_item SET fence = fence - 1 WHERE id = %(item)s"],
        errors.CheckViolation,
        "is older than",
    ),
    "a quota over its limit": (
        ["UPDATE inventory_buyerquota SET used = 4 WHERE buyer = 1"],
        errors.CheckViolation,
        "within_limit",
    ),
    "a quota below nothing": (
        ["UPDATE inventory_buyerquota SET used = -1 WHERE buyer = 1"],
        errors.CheckViolation,
        "inventory_buyerquota",
    ),
    "a movement changed": (
        ["UPDATE inventory_stockmovement SET delta = 0"],
        errors.IntegrityConstraintViolation,
        "append-only",
    ),
    "a movement deleted": (
        ["DELETE FROM inventory_stockmovement"],
        errors.IntegrityConstraintViolation,
        "append-only",
    ),
    "an item deleted that is reserved": (
        ["DELETE FROM inventory_item WHERE id = %(item)s"],
        errors.ForeignKeyViolation,
        "inventory_",
    ),
}


@pytest.mark.parametrize("mistake", REFUSED)
def test_the_database_refuses_to_commit(mistake, item):
    statements, error, message = REFUSED[mistake]
    before = book(item)
    with pytest.raises(error, match=message):
        run(item, statements)
    assert book(item) == before


def test_the_database_refuses_a_second_reservation_for_a_key(item):
    known = Reservation.objects.get(item=item)
    again = (
        "INSERT INTO inventory_reservation (item_id, scope, buyer, key, quantity, state, deadline)"
        " SELECT item_id, scope, buyer, key, 1, 'held', now() FROM inventory_reservation"
        " WHERE id = %(reservation)s"
    )
    with pytest.raises(errors.UniqueViolation, match="one_per_key"):
        run(item, [TAKE_ONE, NOTE_SALE, again])
    assert Reservation.objects.get(item=item) == known
    assert book(item).available == 3


def test_the_database_accepts_what_adds_up(item):
    """So the refusals above are for what is wrong, not for being raw SQL."""
    run(item, [TAKE_ONE, NOTE_SALE, RESERVE_ONE])
    BuyerQuota.objects.create(scope=1, buyer=1, used=1, allowed=1)
    assert book(item).held == 3
    run_all = [GIVE_ONE, NOTE_RETURN] * 2
    first = Reservation.objects.filter(item=item).earliest("pk").pk
    with outsider() as session, session.transaction():
        for statement in [RELEASE, *run_all]:
            session.execute(statement.encode(), {"item": item, "reservation": first})
        session.execute("UPDATE inventory_buyerquota SET used = 0 WHERE scope <> 1")
    assert (book(item).available, book(item).held) == (4, 1)


def test_a_restock_is_the_only_way_to_more_units(item):
    services.restock(item, 7)
    assert (book(item).total, book(item).available) == (12, 10)


def test_held_to_confirmed_leaves_the_items_row_alone(item):
    version = "SELECT xmin::text FROM inventory_item WHERE id = %s"
    with outsider() as session:
        before = session.execute(version, [item]).fetchone()
        session.execute(
            "UPDATE inventory_reservation SET state = 'confirmed' WHERE item_id = %s", [item]
        )
        assert session.execute(version, [item]).fetchone() == before
    assert (book(item).held, book(item).confirmed) == (0, 2)


# --- with the enforcement off, the audit finds what the database would have refused ------------


def spoil(item: int, *statements: str) -> list[str]:
    """Commit wrong rows with the enforcement off; return the audit's findings."""
    with books_not_enforced():
        run(item, statements)
    return problems(item)


def test_the_audit_reports_units_that_are_gone(item):
    assert any("is not total 5" in problem for problem in spoil(item, TAKE_ONE, NOTE_SALE))


def test_the_audit_reports_a_forgotten_movement(item):
    assert any("the ledger adds up to 3" in text for text in spoil(item, TAKE_ONE, RESERVE_ONE))


def test_the_audit_reports_an_oversell_with_its_units(item):
    found = spoil(item, *[RESERVE_ONE.replace("%(key)s", "gen_random_uuid()")] * 4)
    assert any("oversold by 1: 6 of 5" in problem for problem in found)
    assert audit([item]).items[0].oversold == 1


def test_the_audit_reports_a_quota_that_does_not_match_its_reservations(item):
    BuyerQuota.objects.filter(buyer=1).update(used=1)
    assert problems(item) == [f"scope {item}: buyer 1 has used 1 units of the limit and holds 2"]


def test_the_audit_reports_a_counter_that_was_edited(item):
    found = spoil(item, "UPDATE inventory_item SET reserved = reserved + 1 WHERE id = %(item)s")
    assert any("the counter of reserved units is 3, the rows add up to 2" in text for text in found)


def test_the_audit_reports_a_ledger_counter_that_was_edited(item):
    found = spoil(item, "UPDATE inventory_item SET ledger = ledger + 1 WHERE id = %(item)s")
    assert any("the counter of the ledger is 4, the rows add up to 3" in text for text in found)


def test_the_audit_counts_what_is_left_of_a_confirmed_reservation(stock):
    item = stock(5)
    granted = services.reserve(new_purchase(item, quantity=3), open_nothing)
    assert isinstance(granted, Granted)
    with transaction.atomic():
        assert services.confirm(granted.reservation)
    confirmed = Reservation.State.CONFIRMED
    services.release([granted.reservation], lambda _: None, was=confirmed, units=1)
    assert (book(item).confirmed, book(item).available) == (2, 3)
    assert audit([item]).balanced


def test_the_audit_of_one_item_says_nothing_of_another(item):
    other = services.stock("other", 1).pk
    assert spoil(item, TAKE_ONE, NOTE_SALE) != []
    assert problems(other) == []
    assert [each.item for each in audit([other]).items] == [other]
    assert audit().problems == problems(item)


def test_an_empty_database_balances():
    found = audit()
    assert found.balanced
    assert found.items == []


def test_the_ledger_has_one_movement_for_a_restock_and_one_for_a_batch(item):
    movements = StockMovement.objects.filter(item=item).order_by("pk")
    assert list(movements.values_list("delta", "reason")) == [(5, "restock"), (-2, "sale")]
    assert Item.objects.get(pk=item).ledger == 3


def test_an_audit_sees_consistent_books_while_a_sale_is_in_progress(item):
    """Between its two statements a sale is unbalanced; no other session can see that."""
    with outsider() as session, session.transaction(force_rollback=True):
        session.execute(TAKE_ONE, {"item": item})
        assert book(item).available == 3
    assert book(item).available == 3
