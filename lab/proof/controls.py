"""Negative controls: the same proof with one thing switched off, which must turn its property red.

A checker that has never failed has proved nothing. What is switched off here is a strategy's care,
a line of defence, a constraint, a promise of the database or a step of the product; in the proof's
own private database and its own processes only. The first run has everything on and must pass, or
the others mean nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

from lab.strategies import DEFAULT

DRAIN = 8.0
"""Seconds for the follow-up. A healthy shop needs one or two; with the outbox off it never ends."""


EMPTY = (
    # The shop still runs. Where both wait for each other, its session is the one that ends.
    "SET deadlock_timeout = '1min'",
    """TRUNCATE inventory_item, inventory_reservation, inventory_stockmovement,
                inventory_buyerquota, inventory_outboxmessage CASCADE""",
    "DROP FUNCTION IF EXISTS sabotage CASCADE",
)
"""Removes all orders: between two controls, so that constraints can be put back over what broke
them, and before a proof in a shop whose follow-up would take minutes."""


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
        without: safeguards that are off, as in LAB_WITHOUT.
        sabotage: what of the product is replaced, as in ``lab/proof/sabotage.py``; empty: nothing.
        before: SQL that switches it off.
        after: SQL that switches it on again, where `EMPTY` does not.
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
    without: tuple[str, ...] = ()
    sabotage: str = ""
    before: tuple[str, ...] = ()
    after: tuple[str, ...] = ()

    @property
    def shop(self) -> tuple[object, ...]:
        """What its shop is started for; those with the same share one."""
        return (self.without, self.sabotage, self.faults)


def _trigger(when: str, table: str, does: str, condition: str = "true") -> tuple[str, ...]:
    """SQL that does something to each row before it is written; `EMPTY` undoes it."""
    return (
        f"""CREATE FUNCTION sabotage() RETURNS trigger LANGUAGE plpgsql AS
            $$BEGIN {does} RETURN NEW; END$$""",
        f"""CREATE TRIGGER sabotage BEFORE {when} ON {table} FOR EACH ROW WHEN ({condition})
            EXECUTE FUNCTION sabotage()""",
    )


def _signal_wal_writer(signal: str) -> str:
    """SQL that signals the process that writes what sessions have not waited for."""
    return f"""DO $$BEGIN EXECUTE (
                   SELECT format('COPY (SELECT) TO PROGRAM ''cat; kill -{signal} %s''', pid)
                   FROM pg_stat_activity WHERE backend_type = 'walwriter'
               ); END$$"""


CONTROLS = (
    Control("nothing", "nothing", ()),
    Control("naive", "the care: read, check, write", ("P1", "P2"), strategy="naive"),
    Control(
        "guard",
        "the guard and the lock",
        ("P1", "P2"),
        without=("lock", "guard"),
        # On a busy machine the processes might never meet between the look and the write.
        before=_trigger("UPDATE", "inventory_item", "PERFORM pg_sleep(0.25);"),
    ),
    Control(
        "unique-keys",
        "the unique keys",
        ("P5",),
        mix="doubles",
        strategy="guard",
        limit=5,
        units=1,
        before=(
            "ALTER TABLE inventory_reservation DROP CONSTRAINT inventory_reservation_one_per_key",
            # On a busy machine the second request of a key might always find the first one's.
            *_trigger("INSERT", "inventory_reservation", "PERFORM pg_sleep(0.25);"),
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
        before=_trigger("INSERT OR UPDATE", "inventory_buyerquota", "NEW.used := 0;"),
    ),
    Control(
        "outbox",
        "the outbox",
        ("P10",),
        before=_trigger("INSERT", "inventory_outboxmessage", "RETURN NULL;"),
    ),
    Control(
        "fence",
        "the item's memory of the fencing token",
        ("P9",),
        before=(
            "ALTER TABLE inventory_item DISABLE TRIGGER inventory_item_fence",
            *_trigger("UPDATE", "inventory_item", "NEW.fence := 0;"),
        ),
        after=("ALTER TABLE inventory_item ENABLE TRIGGER inventory_item_fence",),
    ),
    Control(
        "release-once",
        "putting a unit back only once, and the books' check",
        ("P1", "P2"),
        mix="payers",
        before=(
            "ALTER TABLE inventory_item DROP CONSTRAINT inventory_item_available_within_total",
            *_trigger(
                "UPDATE",
                "inventory_item",
                """NEW.available := 2 * NEW.available - OLD.available;
                   INSERT INTO lab_unenforceditem (item_id) VALUES (NEW.id)
                   ON CONFLICT DO NOTHING;""",
                "NEW.available > OLD.available AND NEW.total = OLD.total",
            ),
        ),
        after=(
            """ALTER TABLE inventory_item
               ADD CONSTRAINT inventory_item_available_within_total CHECK (available <= total)""",
        ),
    ),
    Control(
        "refund",
        "giving back all of what was paid",
        ("P11",),
        mix="refunders",
        before=_trigger("INSERT", "shop_refund", "NEW.amount := NEW.amount / 2;"),
    ),
    Control(
        "hint",
        "looking again at an item that has sold out",
        ("P7",),
        minutes=0.2,
        sabotage="hint",
    ),
    Control(
        "recovery",
        "a lease shorter than the buyers' time-outs, while its holder is killed",
        ("P12",),
        strategy="redis_lock",
        sabotage="lease",
        units=10,
        faults=("web-killed-before-commit",),
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
            # With its longest delay, 10 s, it could still write everything just before the kill.
            _signal_wal_writer("STOP"),
            # A sale that is lost as well cannot be judged.
            *_trigger("INSERT", "shop_sale", "SET LOCAL synchronous_commit = on;"),
        ),
        after=("ALTER ROLE CURRENT_USER RESET synchronous_commit", _signal_wal_writer("CONT")),
    ),
    # Orders: their price, their time, their mails, and the answers that buyers get.
    Control(
        "price",
        "the price of the second unit of a line",
        ("P14",),
        mix="limits",
        before=_trigger(
            "INSERT",
            "shop_orderline",
            "NEW.amount := NEW.amount - NEW.amount / NEW.quantity;",
            "NEW.quantity > 1",
        ),
    ),
    Control(
        "pause",
        "the pause of a sale",
        ("P15",),
        mix="windows",
        units=12,  # left when the sale is paused and closed, however fast it sells
        before=_trigger("UPDATE", "shop_sale", "NEW.paused := false;"),
    ),
    Control(
        "hold",
        "half of the time to pay",
        ("P16",),
        mix="holds",
        before=_trigger(
            "INSERT",
            "inventory_reservation",
            "NEW.deadline := now() + (NEW.deadline - now()) / 2;",
        ),
    ),
    Control(
        "cart",
        "the second line of a cart",
        ("P17",),
        mix="carts",
        before=_trigger(
            "INSERT",
            "shop_orderline",
            """IF EXISTS (SELECT FROM shop_orderline WHERE order_id = NEW.order_id) THEN
                   RETURN NULL;
               END IF;""",
        ),
    ),
    Control(
        "stranger",
        "the check whose order it is",
        ("P18",),
        mix="peepers",
        sabotage="stranger",
    ),
    Control(
        "mail",
        "the mail after a payment, though it is marked as sent",
        ("P19",),
        mix="payers",
        before=_trigger(
            "INSERT", "inventory_outboxmessage", "NEW.done := now();", "NEW.topic = 'mails.paid'"
        ),
    ),
    Control(
        "busy",
        "the truth of a tenth of the answers: busy, though the order is opened",
        ("P20",),
        sabotage="busy",
    ),
)

QUICK = (
    "nothing",
    "naive",
    "unique-keys",
    "outbox",
    "fence",
    "refund",
    "durability",
    "busy",
)
"""The eight of the short form, which CI runs; all run at night.

One of each way in which a shop breaks: nothing broken; stock (P1, P2), keys (P5), follow-up
(P10), a stale lock holder (P9), money (P11), a commit that is lost (P3), and an untrue answer
(P20). Prices, windows, holds, carts, privacy and mails are compared row by row like these.
"""
