-- Amounts are in minor units of the currency, times in seconds since 1970. The ledger decides what
-- was captured and refunded, and nobody can change it afterwards.

CREATE TABLE IF NOT EXISTS intent (
    id TEXT PRIMARY KEY,
    "order" INTEGER NOT NULL,
    amount INTEGER NOT NULL CHECK (amount > 0),
    currency TEXT NOT NULL,
    status TEXT NOT NULL DEFAULT 'requires_capture',
    captured INTEGER NOT NULL DEFAULT 0,
    refunded INTEGER NOT NULL DEFAULT 0,
    due REAL,  -- when a capture in processing is decided
    created REAL NOT NULL,
    reference TEXT NOT NULL DEFAULT '',  -- the key under which the shop has created it
    return_url TEXT NOT NULL DEFAULT '',  -- where the buyer goes from the page
    expires REAL,  -- until when the buyer may pay
    CONSTRAINT captured_by_the_ledger
        CHECK (captured = CASE status WHEN 'captured' THEN amount ELSE 0 END),
    CONSTRAINT refunds_within_captures CHECK (refunded BETWEEN 0 AND captured)
) STRICT;
CREATE INDEX IF NOT EXISTS intent_order ON intent ("order");
CREATE INDEX IF NOT EXISTS intent_due ON intent (due) WHERE status = 'processing';

CREATE TABLE IF NOT EXISTS refund (
    id TEXT PRIMARY KEY,
    intent TEXT NOT NULL REFERENCES intent,
    amount INTEGER NOT NULL CHECK (amount > 0),
    status TEXT NOT NULL DEFAULT 'pending',
    due REAL NOT NULL,
    reference TEXT NOT NULL DEFAULT ''  -- the key under which the shop has asked for it
) STRICT;
CREATE INDEX IF NOT EXISTS refund_intent ON refund (intent);
CREATE INDEX IF NOT EXISTS refund_due ON refund (due) WHERE status = 'pending';

CREATE TABLE IF NOT EXISTS ledger (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    intent TEXT NOT NULL REFERENCES intent,
    refund TEXT UNIQUE REFERENCES refund,
    operation TEXT NOT NULL,
    amount INTEGER NOT NULL CHECK (amount > 0),
    CHECK (operation = CASE WHEN refund IS NULL THEN 'capture' ELSE 'refund' END)
) STRICT;
CREATE UNIQUE INDEX IF NOT EXISTS one_capture ON ledger (intent) WHERE operation = 'capture';

-- Counts a new line into its intent. The intent's checks then refuse what must not be: a capture of
-- another amount than agreed, a refund beyond what was captured.
CREATE TRIGGER IF NOT EXISTS capture_counts AFTER INSERT ON ledger WHEN NEW.operation = 'capture'
BEGIN
    UPDATE intent SET captured = captured + NEW.amount, status = 'captured'
    WHERE id = NEW.intent AND status IN ('requires_capture', 'processing');
    SELECT RAISE(ABORT, 'this intent cannot be captured') WHERE changes() = 0;
END;
CREATE TRIGGER IF NOT EXISTS refund_counts AFTER INSERT ON ledger WHEN NEW.operation = 'refund'
BEGIN
    UPDATE intent SET refunded = refunded + NEW.amount WHERE id = NEW.intent;
END;
CREATE TRIGGER IF NOT EXISTS ledger_is_not_changed BEFORE UPDATE ON ledger
BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;
CREATE TRIGGER IF NOT EXISTS ledger_is_not_shortened BEFORE DELETE ON ledger
BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;

-- What was asked under an idempotency key (its SHA-256), and the answer.
CREATE TABLE IF NOT EXISTS request (
    key TEXT PRIMARY KEY,
    asked TEXT NOT NULL,
    status INTEGER NOT NULL,
    document TEXT NOT NULL
) STRICT;

-- A webhook event, written with its cause and sent until the shop accepts each copy.
CREATE TABLE IF NOT EXISTS event (
    id TEXT PRIMARY KEY,
    body TEXT NOT NULL,
    remaining INTEGER NOT NULL,
    attempts INTEGER NOT NULL DEFAULT 0,
    due REAL NOT NULL
) STRICT;
CREATE INDEX IF NOT EXISTS event_due ON event (due) WHERE remaining > 0;

-- The configured behaviour: at most one row, which survives a restart.
CREATE TABLE IF NOT EXISTS behaviour (
    id INTEGER PRIMARY KEY CHECK (id = 1),
    fields TEXT NOT NULL
) STRICT;
