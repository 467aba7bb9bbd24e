"""What is switched off of selling, of money and of recovery."""

from __future__ import annotations

from lab.proof.controls.control import Control

STOCK_CONTROLS = (
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
        units=1,
        before=(
            "ALTER TABLE inventory_reservation DROP CONSTRAINT inventory_reservation_one_per_key",
            # On a busy machine the second request of a key might always find the first one's.
            """CREATE FUNCTION linger() RETURNS trigger LANGUAGE plpgsql AS
               'BEGIN PERFORM pg_sleep(0.1); RETURN NEW; END'""",
            """CREATE TRIGGER linger BEFORE INSERT ON inventory_reservation
               FOR EACH ROW EXECUTE FUNCTION linger()""",
        ),
        after=(
            "DROP FUNCTION linger CASCADE",
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
        "a lease shorter than the buyers' time-outs, while its holder is killed",
        ("P12",),
        strategy="redis_lock",
        sabotage="lease",
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
        # Of which purchases have 30.
        environment=(("DB_POOL_MIN", "80"), ("DB_POOL_SIZE", "80")),
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
