"""The database enforces its rules: it refuses wrong raw SQL at the commit."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from uuid import uuid4

import pytest
from django.db import transaction
from psycopg import errors

from inventory import services
from inventory.audit import audit
from inventory.models import BuyerQuota, Item, Reservation, StockMovement
from inventory.outcomes import Granted, Level, NoSuchItem
from inventory.selling import guard
from inventory.selling.commit import ConditionFailed, execute_together
from inventory.tests.helpers import (
    book,
    books_not_enforced,
    new_purchase,
    outsider,
    problems,
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
SAME_KEY = """
INSERT INTO inventory_reservation (item_id, scope, buyer, key, quantity, state, deadline)
SELECT item_id, scope, buyer, key, 1, 'held', now() FROM inventory_reservation
WHERE id = %(reservation)s
"""


@pytest.fixture
def item() -> int:
    """Five units; buyer 1 holds two, with a limit of three."""
    pk: int = services.stock("phone", 5).pk
    outcome = sell(new_purchase(pk, 1, 2, limit=3))
    assert isinstance(outcome, Granted)
    return pk


def run(item: int, statements: Sequence[str]) -> None:
    """Run statements in one transaction of a session outside Django."""
    reservation = Reservation.objects.filter(item=item).earliest("pk").pk
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
    (errors.UniqueViolation, "one_per_key"): {
        "a second reservation for a key": [TAKE_ONE, NOTE_SALE, SAME_KEY],
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
def test_database_refuses_to_commit_broken_books(error, message, statements, item):
    before = book(item)
    with pytest.raises(error, match=message):
        run(item, statements)
    assert book(item) == before


def test_database_accepts_books_that_add_up(item):
    """So the refusals above are for what is wrong, not for being raw SQL."""
    run(item, [TAKE_ONE, NOTE_SALE, RESERVE_ONE])
    BuyerQuota.objects.create(scope=1, buyer=1, used=1, allowed=1)
    assert book(item).held == 3
    release_both = "UPDATE inventory_reservation SET state = 'released'"
    no_quota = "UPDATE inventory_buyerquota SET used = 0"
    run(item, [release_both, *[GIVE_ONE, NOTE_RETURN] * 3, no_quota])
    assert (book(item).available, book(item).held) == (5, 0)


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
def test_audit_reports_what_the_database_would_refuse(statements, finding, item):
    assert any(finding in problem for problem in spoil(item, *statements))


def test_audit_reports_an_oversell_with_its_units(item):
    found = spoil(item, *[RESERVE_ONE.replace("%(key)s", "gen_random_uuid()")] * 4)
    assert any("oversold by 1: 6 of 5" in problem for problem in found)
    assert audit([item]).items[0].oversold == 1


def test_audit_reports_a_quota_unlike_its_reservations(item):
    BuyerQuota.objects.filter(buyer=1).update(used=1)
    assert problems(item) == [f"scope {item}: buyer 1 has used 1 units of the limit and holds 2"]


def test_audit_of_one_item_counts_the_whole_scope(stock):
    items = [stock(5), stock(5)]
    for item in items:
        sell(new_purchase(item, 1, scope=7))
    assert [problems(item) for item in items] == [[], []]
    BuyerQuota.objects.update(used=1)
    contradiction = ["scope 7: buyer 1 has used 1 units of the limit and holds 2"]
    assert [problems(item) for item in items] == [contradiction] * 2
    assert audit().problems == contradiction


def test_audit_reports_a_quota_row_that_is_missing(item):
    BuyerQuota.objects.all().delete()
    expected = f"scope {item}: buyer 1 has used no units (there is no row) of the limit and holds 2"
    assert problems(item) == audit().problems == [expected]


def test_audit_of_one_item_reports_nothing_of_another(item):
    other = services.stock("other", 1).pk
    assert spoil(item, TAKE_ONE, NOTE_SALE) != []
    assert problems(other) == []
    assert [entry.item for entry in audit([other]).items] == [other]
    assert audit().problems == problems(item)


# --- the guard: one statement that decides and writes the ledger --------------------------------


@pytest.fixture
def ten() -> Iterator[int]:
    """Ten units whose books may be unbalanced: the guard alone writes no reservations."""
    with books_not_enforced():
        yield services.stock("phone", 10).pk


def take(item: int, units: int, token: int | None = None) -> Level:
    """Take units as a batch does, which may have a token."""
    with transaction.atomic():
        wanted = guard.to_take({item: units}, guard.Reason.SALE, token)
        row = execute_together([(guard.TAKE_OR_FAIL, wanted)]).fetchone()
    assert row is not None
    _, [available], [version], _ = row
    return Level(available, version)


def state(item: int) -> tuple[int, int, int]:
    row = Item.objects.get(pk=item)
    return row.available, row.fence, StockMovement.objects.filter(item=item).count()


def test_guard_takes_all_units_wanted_or_none(ten):
    assert take(ten, 7).available == 3
    assert StockMovement.objects.filter(item=ten).latest("pk").delta == -7
    before = state(ten)
    with pytest.raises(ConditionFailed):
        take(ten, 4)
    with pytest.raises(guard.OutOfStock, match="only 3") as refused, transaction.atomic():
        guard.take(ten, 4)
    assert (refused.value.available, state(ten)) == (3, before)
    assert take(ten, 3).available == 0


def test_guard_gives_every_change_its_own_version(ten):
    levels = [take(ten, 1), take(ten, 1)]
    with transaction.atomic():
        levels.append(guard.remove(ten, 1))
    levels.append(services.restock(ten, 1))
    versions = [level.version for level in levels]
    assert versions == sorted(set(versions))


@pytest.mark.parametrize("move", [guard.take, guard.restock, guard.remove])
def test_guard_refuses_unknown_items_and_autocommit(move, ten):
    for units in (0, -1):
        with pytest.raises(ValueError, match="at least one"), transaction.atomic():
            move(ten, units)
    with pytest.raises(NoSuchItem), transaction.atomic():
        move(0, 1)
    with pytest.raises(transaction.TransactionManagementError):
        move(ten, 1)
    assert state(ten)[0] == 10
