-- What the checker looks at, in a temporary database: a history of millions of calls does not have
-- to fit into memory, and most properties are one query that a reader can check.

-- The history: one row a call. "end" is 2^63 - 1 where no end was seen.
CREATE TABLE call (
    call TEXT, op TEXT, buyer TEXT, key TEXT, sale TEXT, item TEXT, quantity INTEGER,
    start INTEGER, "end" INTEGER, outcome TEXT, status INTEGER, code TEXT, order_id TEXT,
    cart TEXT, amount INTEGER, currency TEXT, shown_status TEXT, refunded INTEGER,
    returned INTEGER, available INTEGER, must INTEGER, asked_again INTEGER
);
-- Calls of buyers who had sales to themselves, as in the history.
-- The orders to which the pages link that buyers were shown.
CREATE TABLE link (op TEXT, buyer TEXT, order_id TEXT);

-- Snapshots: number 0 is the final one, the others were taken during the run.
CREATE TABLE snapshot (number INTEGER PRIMARY KEY, taken_at INTEGER, clock INTEGER);
CREATE TABLE item (
    snapshot INTEGER, id TEXT, total INTEGER, available INTEGER, held INTEGER, confirmed INTEGER,
    ledger_sum INTEGER, fence INTEGER
);
CREATE TABLE sale (
    snapshot INTEGER, id TEXT, item TEXT, "limit" INTEGER, price INTEGER, currency TEXT,
    hold INTEGER, restock_cancelled INTEGER, restock_returned INTEGER, action_hold INTEGER,
    early_starts_at INTEGER, early_code INTEGER
);
CREATE TABLE early (snapshot INTEGER, sale TEXT, buyer TEXT);
CREATE TABLE terms (
    snapshot INTEGER, sale TEXT, asked INTEGER, done INTEGER, price INTEGER, starts_at INTEGER,
    ends_at INTEGER, paused INTEGER
);
CREATE TABLE reservation (
    snapshot INTEGER, id TEXT, item TEXT, buyer TEXT, key TEXT, quantity INTEGER, state TEXT,
    returned INTEGER, deadline INTEGER
);
CREATE TABLE "order" (
    snapshot INTEGER, id TEXT, reservation TEXT, sale TEXT, item TEXT, buyer TEXT, key TEXT,
    quantity INTEGER, amount INTEGER, status TEXT, created INTEGER, currency TEXT, to_pay INTEGER,
    refunded INTEGER, pay_before INTEGER
);
-- The shop's names, the same in each snapshot.
CREATE TABLE status (
    snapshot INTEGER, name TEXT PRIMARY KEY ON CONFLICT IGNORE, rank INTEGER, stock TEXT,
    paid INTEGER
);
CREATE TABLE step (
    snapshot INTEGER, event TEXT PRIMARY KEY ON CONFLICT IGNORE, op TEXT, before TEXT, after TEXT,
    mail TEXT
);
CREATE TABLE mail (
    snapshot INTEGER, name TEXT PRIMARY KEY ON CONFLICT IGNORE, subject TEXT, deadline INTEGER
);
CREATE TABLE event (
    snapshot INTEGER, id INTEGER, order_id TEXT, name TEXT, at INTEGER, amount INTEGER,
    quantity INTEGER, sale TEXT
);
CREATE TABLE buyer (snapshot INTEGER, id TEXT, email TEXT);
CREATE TABLE movement (
    snapshot INTEGER, id INTEGER, item TEXT, delta INTEGER, reason TEXT, token INTEGER
);
CREATE TABLE voucher (snapshot INTEGER, id TEXT, "limit" INTEGER, uses INTEGER);
CREATE TABLE bill (snapshot INTEGER, order_id TEXT, paid INTEGER, worth INTEGER);
CREATE TABLE effect (snapshot INTEGER, order_id TEXT, name TEXT, count INTEGER);
CREATE TABLE outbox (snapshot INTEGER, id TEXT, topic TEXT, done INTEGER);
CREATE TABLE payment (
    snapshot INTEGER, id TEXT, order_id TEXT, operation TEXT, amount INTEGER, currency TEXT
);
-- Mails as the mail server took them.
CREATE TABLE delivery (
    snapshot INTEGER, message TEXT, recipient TEXT, subject TEXT, text TEXT, name TEXT,
    order_id TEXT
);

-- Draws: their lists, who has won, and the receipts that buyers were given.
CREATE TABLE draw (
    snapshot INTEGER, id TEXT, total INTEGER, available INTEGER, starts_at INTEGER, ends_at INTEGER,
    commitment TEXT, source TEXT, closed INTEGER, length INTEGER, last_hash TEXT, seed TEXT,
    public_value TEXT
);
CREATE TABLE entry (
    snapshot INTEGER, draw TEXT, number INTEGER, buyer TEXT, hash TEXT, at INTEGER, mark TEXT,
    withdraws INTEGER
);
CREATE TABLE win (
    snapshot INTEGER, draw TEXT, number INTEGER, order_id TEXT, quantity INTEGER, at INTEGER,
    gone INTEGER, back INTEGER
);
CREATE TABLE receipt (
    call TEXT, draw TEXT, buyer TEXT, number INTEGER, hash TEXT, mark TEXT, start INTEGER,
    new INTEGER
);

-- What was injected: when each fault began and when it was healed.
CREATE TABLE fault (name TEXT, start INTEGER, "end" INTEGER);
