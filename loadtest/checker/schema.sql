-- What the checker looks at, in a temporary database: a history of millions of calls does not have
-- to fit into memory, and most properties are one query that a reader can check.

-- The history: one row a call. "end" is 2^63 - 1 where no end was seen.
CREATE TABLE call (
    op TEXT, buyer TEXT, key TEXT, sale TEXT, item TEXT, quantity INTEGER,
    start INTEGER, "end" INTEGER, outcome TEXT, status INTEGER, code TEXT, order_id TEXT
);

-- Snapshots: number 0 is the final one, the others were taken during the run.
CREATE TABLE snapshot (number INTEGER PRIMARY KEY, taken_at INTEGER);
CREATE TABLE item (
    snapshot INTEGER, id TEXT, total INTEGER, available INTEGER, held INTEGER, confirmed INTEGER,
    ledger_sum INTEGER, fence INTEGER
);
CREATE TABLE sale (snapshot INTEGER, id TEXT, item TEXT, "limit" INTEGER);
CREATE TABLE reservation (
    snapshot INTEGER, id TEXT, item TEXT, buyer TEXT, key TEXT, quantity INTEGER, state TEXT,
    returned INTEGER
);
CREATE TABLE "order" (
    snapshot INTEGER, id TEXT, reservation TEXT, sale TEXT, item TEXT, buyer TEXT, key TEXT,
    quantity INTEGER, amount INTEGER, status TEXT, created TEXT, currency TEXT
);
CREATE TABLE movement (
    snapshot INTEGER, id INTEGER, item TEXT, delta INTEGER, reason TEXT, token INTEGER
);
CREATE TABLE effect (snapshot INTEGER, order_id TEXT, name TEXT, count INTEGER);
CREATE TABLE outbox (snapshot INTEGER, id TEXT, topic TEXT, done INTEGER);
CREATE TABLE payment (
    snapshot INTEGER, id TEXT, order_id TEXT, operation TEXT, amount INTEGER, currency TEXT
);

-- What was injected: when each fault began and when it was healed.
CREATE TABLE fault (name TEXT, start INTEGER, "end" INTEGER);
