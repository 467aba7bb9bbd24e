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
    release,
    sell,
)

pytestmark = pytest.mark.django_db(transaction=True)


def change_item(values: str) -> str:
    return f"UPDATE inventory_item SET {values} WHERE id = %(item)s"


def change_reservation(values: str) -> str:
    return f"UPDATE inventory_reservation SET {values} WHERE id = %(reservation)s"


TAKE_ONE = change_item("available = available - 1")
GIVE_ONE = change_item("available = available + 1")
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
RELEASE = change_reservation("state = 'released'")


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
    (errors.CheckViolation, "available_not_negative"): {
        "less than none available": [change_item("available = -1")],
    },
    (errors.CheckViolation, "available_within_total"): {
        "more available than the total": [change_item("available = 6")],
        "stock restored twice": [RELEASE, *[GIVE_ONE, NOTE_RETURN] * 4],
    },
    (errors.CheckViolation, "is not total"): {
        "units taken without a reservation": [TAKE_ONE, NOTE_SALE],
        "a reservation without taking its units": [RESERVE_ONE],
        "stock restored though the reservation is live": [*[GIVE_ONE, NOTE_RETURN] * 2],
        "a release without its stock": [RELEASE],
        "a quantity that grows afterwards": [change_reservation("quantity = 3")],
        "a live reservation deleted": [
            "DELETE FROM inventory_reservation WHERE id = %(reservation)s"
        ],
        "a total that moves without a restock": [change_item("total = total + 1")],
    },
    (errors.CheckViolation, "the ledger says"): {
        "the ledger forgotten": [TAKE_ONE, RESERVE_ONE],
        "a movement of nothing": [NOTE_SALE],
    },
    (errors.CheckViolation, "quantity_positive"): {
        "a reservation of nothing": [change_reservation("quantity = 0")],
    },
    (errors.CheckViolation, "state_known"): {
        "an unknown state": [change_reservation("state = 'lost'")],
    },
    (errors.CheckViolation, "is older than"): {
        "a fence that falls": [change_item("fence = fence - 1")],
    },
    (errors.CheckViolation, "within_limit"): {
        "a quota over its limit": ["UPDATE inventory_buyerquota SET used = 4 WHERE buyer = 1"],
    },
    (errors.CheckViolation, "inventory_buyerquota"): {
        "a quota below nothing": ["UPDATE inventory_buyerquota SET used = -1 WHERE buyer = 1"],
    },
    (errors.IntegrityConstraintViolation, "append-only"): {
        "a movement changed": ["UPDATE inventory_stockmovement SET delta = 0"],
        "a movement deleted": ["DELETE FROM inventory_stockmovement"],
    },
    (errors.ForeignKeyViolation, "inventory_"): {
        "an item deleted that is reserved": ["DELETE FROM inventory_item WHERE id = %(item)s"],
    },
}


@pytest.mark.parametrize(
    ("error", "message", "statements"),
    [
        pytest.param(error, message, statements, id=mistake)
        for (error, message), mistakes in REFUSED.items()
        for mistake, statements in mistakes.items()
    ],
)
def test_the_database_refuses_to_commit(error, message, statements, item):
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


@pytest.mark.parametrize(
    ("statements", "finding"),
    [
        ([TAKE_ONE, NOTE_SALE], "is not total 5"),
        ([TAKE_ONE, RESERVE_ONE], "the ledger adds up to 3"),
        (
            [change_item("reserved = reserved + 1")],
            "the counter of reserved units is 3, the rows add up to 2",
        ),
        (
            [change_item("ledger = ledger + 1")],
            "the counter of the ledger is 4, the rows add up to 3",
        ),
    ],
)
def test_the_audit_reports_what_the_database_would_have_refused(statements, finding, item):
    assert any(finding in problem for problem in spoil(item, *statements))


def test_the_audit_reports_an_oversell_with_its_units(item):
    found = spoil(item, *[RESERVE_ONE.replace("%(key)s", "gen_random_uuid()")] * 4)
    assert any("oversold by 1: 6 of 5" in problem for problem in found)
    assert audit([item]).items[0].oversold == 1


def test_the_audit_reports_a_quota_that_does_not_match_its_reservations(item):
    BuyerQuota.objects.filter(buyer=1).update(used=1)
    assert problems(item) == [f"scope {item}: buyer 1 has used 1 units of the limit and holds 2"]


def test_the_audit_counts_what_is_left_of_a_confirmed_reservation(stock):
    item = stock(5)
    granted = services.reserve(new_purchase(item, quantity=3), open_nothing)
    assert isinstance(granted, Granted)
    with transaction.atomic():
        assert services.confirm(granted.reservation)
    confirmed = Reservation.State.CONFIRMED
    release(granted.reservation, was=confirmed, units=1)
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
