"""Negative controls: the same proof with one thing switched off, which must turn its property red.

A checker that has never failed has proved nothing. What is switched off here is a strategy's care,
a line of defence, a constraint or a promise of the database; in the proof's own private database
and its own processes only. The first run has everything on and must pass, or the others mean
nothing.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from django.db import connection

from inventory.selling.strategies import DEFAULT
from lab.proof import testbed
from lab.proof.load_profile import LoadProfile
from lab.proof.plan import Plan
from lab.proof.progress import Progress
from lab.proof.result import Result
from lab.proof.run import Proof
from lab.proof.testbed import Testbed

DRAIN = 8.0
"""Seconds for the follow-up. A healthy shop needs one or two; with the outbox off it never ends."""

EMPTY = """
TRUNCATE inventory_item, inventory_reservation, inventory_stockmovement, inventory_buyerquota,
         inventory_outboxmessage CASCADE
"""
"""Between two controls, so that constraints can be put back over what broke them."""


@dataclass(frozen=True, slots=True)
class Control:
    """One thing to switch off.

    Attributes:
        name: for the table.
        off: what is switched off.
        reddens: properties of which at least one must fail; none: all must pass.
        mix: which buyers come.
        strategy: how the sale is sold.
        limit: units a buyer may have.
        units: of stock for each buyer.
        minutes: as in the plan.
        faults: as in the plan.
        tells: whether a restock removes the sold-out hint.
        lines: safeguards that are on, as in INVENTORY_FEATURE_FLAGS; empty: all.
        buyers: at once; 0: as many as were asked for.
        environment: further variables of its shop, and their values.
        before: SQL that switches it off.
        after: SQL that switches it on again.
    """

    name: str
    off: str
    reddens: tuple[str, ...]
    mix: str = "rush"
    strategy: str = DEFAULT
    limit: int = 1
    units: float = 0.25
    minutes: float = 0.0
    faults: tuple[str, ...] = ()
    tells: bool = True
    lines: str = ""
    buyers: int = 0
    environment: tuple[tuple[str, str], ...] = ()
    before: tuple[str, ...] = ()
    after: tuple[str, ...] = ()

    @property
    def shop(self) -> tuple[object, ...]:
        """What its shop is started for; those with the same share one."""
        return (self.lines, self.environment, self.faults)


CONTROLS = (
    Control("nothing", "nothing", ()),
    Control("naive", "the care: read, check, write", ("P1", "P2"), strategy="naive"),
    Control("guard", "the guard and the lock", ("P1", "P2"), lines="admission"),
    Control(
        "unique-keys",
        "the unique keys",
        ("P5",),
        mix="doubles",
        strategy="guard",
        limit=5,
        before=(
            "ALTER TABLE inventory_reservation DROP CONSTRAINT inventory_reservation_one_per_key",
        ),
        after=(
            """ALTER TABLE inventory_reservation
               ADD CONSTRAINT inventory_reservation_one_per_key UNIQUE (buyer, key)""",
        ),
    ),
    Control(
        "quota",
        "the count of what a buyer has",
        ("P5",),
        units=3,
        before=(
            """CREATE FUNCTION forget_quota() RETURNS trigger LANGUAGE plpgsql AS
               'BEGIN NEW.used := 0; RETURN NEW; END'""",
            """CREATE TRIGGER forget BEFORE INSERT OR UPDATE ON inventory_buyerquota
               FOR EACH ROW EXECUTE FUNCTION forget_quota()""",
        ),
        after=("DROP FUNCTION forget_quota CASCADE",),
    ),
    Control(
        "outbox",
        "the outbox",
        ("P10",),
        before=(
            """CREATE FUNCTION forget_message() RETURNS trigger LANGUAGE plpgsql AS
               'BEGIN RETURN NULL; END'""",
            """CREATE TRIGGER forget BEFORE INSERT ON inventory_outboxmessage
               FOR EACH ROW EXECUTE FUNCTION forget_message()""",
        ),
        after=("DROP FUNCTION forget_message CASCADE",),
    ),
    Control(
        "fence",
        "the item's memory of the fencing token",
        ("P9",),
        before=(
            "ALTER TABLE inventory_item DISABLE TRIGGER inventory_item_fence",
            """CREATE FUNCTION forget_fence() RETURNS trigger LANGUAGE plpgsql AS
               'BEGIN NEW.fence := 0; RETURN NEW; END'""",
            """CREATE TRIGGER forget BEFORE UPDATE ON inventory_item
               FOR EACH ROW EXECUTE FUNCTION forget_fence()""",
        ),
        after=(
            "DROP FUNCTION forget_fence CASCADE",
            "ALTER TABLE inventory_item ENABLE TRIGGER inventory_item_fence",
        ),
    ),
    Control(
        "release-once",
        "putting a unit back only once, and the books' check",
        ("P1", "P2"),
        mix="payers",
        before=(
            "ALTER TABLE inventory_item DROP CONSTRAINT inventory_item_available_within_total",
            """CREATE FUNCTION release_twice() RETURNS trigger LANGUAGE plpgsql AS
               'BEGIN NEW.available := 2 * NEW.available - OLD.available;
                INSERT INTO lab_unenforceditem (item_id) VALUES (NEW.id) ON CONFLICT DO NOTHING;
                RETURN NEW; END'""",
            """CREATE TRIGGER twice BEFORE UPDATE ON inventory_item FOR EACH ROW
               WHEN (NEW.available > OLD.available AND NEW.total = OLD.total)
               EXECUTE FUNCTION release_twice()""",
        ),
        after=(
            "DROP FUNCTION release_twice CASCADE",
            """ALTER TABLE inventory_item
               ADD CONSTRAINT inventory_item_available_within_total CHECK (available <= total)""",
        ),
    ),
    Control(
        "refund",
        "giving back all of what was paid",
        ("P11",),
        mix="refunders",
        before=(
            """CREATE FUNCTION keep_half() RETURNS trigger LANGUAGE plpgsql AS
               'BEGIN NEW.amount := NEW.amount / 2; RETURN NEW; END'""",
            """CREATE TRIGGER keep_half BEFORE INSERT ON shop_refund
               FOR EACH ROW EXECUTE FUNCTION keep_half()""",
        ),
        after=("DROP FUNCTION keep_half CASCADE",),
    ),
    Control(
        "hint",
        "removing the sold-out hint at a restock",
        ("P7",),
        minutes=0.2,
        tells=False,
    ),
    Control(
        "recovery",
        "a lease shorter than anybody's patience, while its holder is killed",
        ("P12",),
        strategy="redis_lock",
        units=10,
        faults=("web-killed-before-commit",),
    ),
    Control(
        "connections",
        "the check of pooled connections, while PostgreSQL is killed",
        ("P12",),
        units=10,
        lines="admission,lock,guard",
        faults=("postgres-killed",),
        # A busy shop uses up its dead connections within a second or two; a quiet one fails for
        # as long as it takes to use each of a full pool once.
        buyers=1,
        environment=(("DB_POOL_MIN", "16"),),
    ),
    Control(
        "durability",
        "synchronous_commit, while PostgreSQL is killed",
        ("P3",),
        units=10,
        faults=("postgres-killed",),
        before=(
            # For the role: the server's command line, which says "on", outranks ALTER SYSTEM.
            "ALTER ROLE CURRENT_USER SET synchronous_commit = off",
            "ALTER SYSTEM SET wal_writer_delay = '10s'",
            "ALTER SYSTEM SET wal_writer_flush_after = '1GB'",
            "SELECT pg_reload_conf()",
        ),
        after=(
            "ALTER ROLE CURRENT_USER RESET synchronous_commit",
            "ALTER SYSTEM RESET wal_writer_delay",
            "ALTER SYSTEM RESET wal_writer_flush_after",
            "SELECT pg_reload_conf()",
        ),
    ),
)

QUICK = ("nothing", "naive", "unique-keys", "outbox", "fence", "refund", "durability")
"""Those of the short form: one of each kind."""


@dataclass(slots=True)
class Outcome:
    """What a control came to.

    Attributes:
        red: properties that failed.
        result: of the proof.
    """

    control: Control
    result: Result
    red: list[str] = field(default_factory=list)

    @property
    def caught(self) -> bool:
        """Whether the checker saw what it had to see."""
        if not self.control.reddens:
            return self.result.outcome == "pass"
        return bool(set(self.red) & set(self.control.reddens))

    def to_json(self) -> dict[str, Any]:
        """A line of ``prove --controls --json``."""
        return {
            "control": self.control.name,
            "off": self.control.off,
            "expected": list(self.control.reddens),
            "red": self.red,
            "details": {
                each.id: each.detail
                for each in (self.result.verdict.properties if self.result.verdict else [])
                if each.id in self.control.reddens
            },
            "caught": self.caught,
            "counts": self.result.verdict.counts if self.result.verdict else {},
        }


def run(
    names: tuple[str, ...], seed: int, buyers: int, tell: Callable[[Control, Progress], None]
) -> Iterator[Outcome]:
    """Run controls one after the other, each against an empty shop.

    Args:
        names: of :data:`CONTROLS`.
        seed: of the buyers.
        buyers: at once.
        tell: called with the progress.

    Raises:
        StackError, LoadFailed: a shop could not be started or a load not generated.
    """
    with ExitStack() as shops:
        where: dict[tuple[object, ...], Testbed] = {}
        for control in CONTROLS:
            if control.name not in names:
                continue
            with _switched_off(control):
                if control.shop not in where:
                    # One shop for all that differ in the database alone.
                    shops.close()
                    extra = dict(control.environment)
                    if control.lines:
                        extra["INVENTORY_FEATURE_FLAGS"] = control.lines
                    shop = shops.enter_context(testbed.breakable(control.faults, extra))
                    where = {control.shop: shop}
                yield _one(control, where[control.shop], seed, control.buyers or buyers, tell)


def _one(
    control: Control,
    shop: Testbed,
    seed: int,
    buyers: int,
    tell: Callable[[Control, Progress], None],
) -> Outcome:
    stays = bool(control.minutes or control.faults)
    profile = LoadProfile(buyers, control.mix, seed, stays=stays)
    stock = round(buyers * control.units)
    plan = Plan(profile, stock, control.limit, control.strategy, control.minutes, control.faults)
    plan = replace(plan, drain=DRAIN, restock_tells=control.tells)
    with tempfile.TemporaryDirectory(prefix="control-") as folder:
        proof = Proof(plan, shop, Path(folder), lambda now: tell(control, now))
        proof.run()
    result = proof.result
    findings = result.verdict.properties if result.verdict else []
    return Outcome(control, result, [each.id for each in findings if each.verdict == "fail"])


@contextmanager
def _switched_off(control: Control) -> Iterator[None]:
    _execute(control.before)
    try:
        yield
    finally:
        _execute((EMPTY, *control.after))


def _execute(statements: tuple[str, ...]) -> None:
    # One by one: ALTER SYSTEM refuses to share a transaction.
    with connection.cursor() as cursor:
        for statement in statements:
            cursor.execute(statement)
    # The next session is a new one: it may be among those that were just ended.
    connection.close()
    connection.close_pool()  # type: ignore[attr-defined]  # PostgreSQL's backend has it
