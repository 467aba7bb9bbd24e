-- What the orders went through, derived once everything is loaded. Times are the database's (µs).

-- What to add to a time of the history (in µs) to get the database's: between these two. NULL if no
-- snapshot has both clocks. A quarter of a second for what passed between reading one and the other.
CREATE TABLE skew AS
SELECT min(clock - taken_at / 1000) - 250000 AS low, max(clock - taken_at / 1000) + 250000 AS high
FROM snapshot WHERE clock > 0;

-- One row per order, whose lines are rows of "order".
CREATE TABLE opened AS
SELECT id, min(buyer) AS buyer, min(status) AS status, min(created) AS created,
       min(pay_before) AS pay_before, min(currency) AS currency, min(to_pay) AS to_pay,
       min(refunded) AS refunded, sum(amount) AS total, count(*) AS lines, stock, paid
FROM "order" LEFT JOIN status ON status.name = "order".status
WHERE "order".snapshot = 0 GROUP BY id;
CREATE UNIQUE INDEX opened_id ON opened (id);

-- The events, with what they mean.
CREATE TABLE happened AS
SELECT event.id, order_id, name, at, amount, quantity, sale, op, before, after, mail
FROM event JOIN step ON step.event = event.name;
CREATE INDEX happened_order ON happened (order_id, id);
CREATE INDEX call_order ON call (order_id) WHERE order_id IS NOT NULL;
CREATE INDEX payment_order ON payment (order_id);

-- Every status that an order had, from `entered` until `left` (NULL: it still has it), and the
-- event that led to it. An event is a little older than the commit that shows its effect.
CREATE TABLE state AS
SELECT order_id, number, event, op, before, status, stock, entered,
       lead(entered) OVER history AS "left", lag(status) OVER history AS came_from,
       lag(stock) OVER history AS had
FROM (
    SELECT id AS order_id, -1 AS number, '' AS event, '' AS op, '' AS before,
           (SELECT name FROM status ORDER BY rank LIMIT 1) AS status, created AS entered
    FROM opened
    UNION ALL
    SELECT order_id, id, name, op, before, after, at FROM happened WHERE after <> ''
) LEFT JOIN status ON status.name = status
WINDOW history AS (PARTITION BY order_id ORDER BY number);
CREATE INDEX state_order ON state (order_id, status);

-- Every amount that an order had: less with each part that was cancelled. And every amount that had
-- been given back of it.
CREATE TABLE amounts AS
SELECT id AS order_id, total AS amount FROM opened UNION
SELECT order_id, total - sum(amount) OVER (PARTITION BY order_id ORDER BY happened.id)
FROM happened JOIN opened ON opened.id = order_id WHERE op = 'cancel' AND quantity > 0;
CREATE INDEX amounts_order ON amounts (order_id, amount);
CREATE TABLE given_back AS
SELECT id AS order_id, 0 AS amount FROM opened UNION
SELECT order_id, sum(amount) OVER (PARTITION BY order_id ORDER BY id)
FROM happened WHERE op = 'give_back';
CREATE INDEX given_back_order ON given_back (order_id, amount);

-- Units of each line that were given back in parts.
CREATE TABLE parts AS
SELECT order_id, sale, sum(quantity) FILTER (WHERE op = 'cancel') AS cancelled,
       sum(quantity) FILTER (WHERE op = 'refund') AS returned, sum(quantity) AS units
FROM happened WHERE op IN ('cancel', 'refund') AND quantity > 0 GROUP BY order_id, sale;
CREATE UNIQUE INDEX parts_line ON parts (order_id, sale);

-- The terms that a sale may have had from `since` until `until`. A change whose
-- outcome is unknown (done = 0) leaves both the terms before it and its own possible. What was told first
-- held before. A sale of which nothing was told kept the price that it has; its window is unknown.
CREATE TABLE possible AS
SELECT sale, price, starts_at, ends_at, paused,
       CASE WHEN lag(asked) OVER by_time IS NULL THEN 0 ELSE asked END AS since,
       coalesce(min(CASE WHEN done > 0 THEN done END) OVER (
           PARTITION BY sale ORDER BY asked ROWS BETWEEN 1 FOLLOWING AND UNBOUNDED FOLLOWING
       ), 9223372036854775807) AS until
FROM terms WINDOW by_time AS (PARTITION BY sale ORDER BY asked)
UNION ALL
SELECT id, price, NULL, NULL, NULL, 0, 9223372036854775807 FROM sale
WHERE snapshot = 0 AND currency <> '' AND id NOT IN (SELECT sale FROM terms);
CREATE INDEX possible_sale ON possible (sale, since);

-- Every line, with the stretch in which its transaction looked at its sale: it had begun at
-- `created` and, after waiting for locks, was over when a client was told. Nobody was told: 30 s.
-- `opened_early` is when the sale opened for the line's buyer, if that was earlier than for others.
CREATE TABLE sold AS
SELECT o.id AS order_id, o.sale, o.key, o.quantity, o.amount, o.currency, o.created,
       (SELECT early_starts_at FROM sale
        WHERE sale.snapshot = 0 AND sale.id = o.sale AND early_starts_at > 0
            AND (early_code OR EXISTS (SELECT 1 FROM early WHERE early.snapshot = 0
                AND early.sale = o.sale AND early.buyer = o.buyer))) AS opened_early,
       max(o.created, coalesce(min(purchase.answered / 1000 + skew.high, o.created + 30000000),
           o.created + 30000000)) AS latest
FROM "order" AS o CROSS JOIN skew LEFT JOIN purchase ON purchase.key = o.key WHERE o.snapshot = 0;

-- Whose order it is, by the client's own name.
CREATE TABLE owner AS
SELECT o.id AS order_id, min(purchase.buyer) AS buyer FROM "order" AS o
JOIN purchase ON purchase.key = o.key WHERE o.snapshot = 0 GROUP BY o.id;
CREATE UNIQUE INDEX owner_order ON owner (order_id);
CREATE INDEX delivery_order ON delivery (order_id, name);
CREATE INDEX buyer_id ON buyer (id);

-- The units of a sale that a buyer may have had, by the history's clock (ns): at most these, from
-- `since` until `until`, by which time the whole order had certainly ended. A part that had
-- certainly been given back counts against them (negative) from then on. Certainly: a client was
-- told so, or two seconds after the event.
CREATE TABLE holding AS
WITH line AS (
    SELECT purchase.buyer, o.sale, o.id AS order_id, taken.quantity, taken.start AS since, min(
        coalesce((
            SELECT min(1000 * (entered - skew.low) + 2000000000) FROM state, skew
            WHERE order_id = o.id AND stock = 'released'
        ), 9223372036854775807), coalesce((
            SELECT min("end") FROM call WHERE call.order_id = o.id AND op IN ('cancel', 'refund')
            AND call.quantity = 0 AND outcome = 'ok'
        ), 9223372036854775807)) AS ended,
        EXISTS (SELECT 1 FROM state WHERE order_id = o.id AND had = 'released'
                AND stock <> 'released') AS again
    FROM "order" AS o JOIN purchase ON purchase.key = o.key JOIN taken ON taken.key = o.key
    WHERE o.snapshot = 0
)
SELECT buyer, sale, quantity AS units, since,
       CASE WHEN again THEN 9223372036854775807 ELSE ended END AS until FROM line
UNION ALL
SELECT buyer, line.sale, -part.quantity, 1000 * (at - skew.low) + 2000000000,
       CASE WHEN again THEN 9223372036854775807 ELSE ended END
FROM line JOIN happened AS part ON part.order_id = line.order_id AND part.sale = line.sale
    AND op IN ('cancel', 'refund') AND part.quantity > 0
CROSS JOIN skew WHERE skew.low IS NOT NULL;
CREATE INDEX holding_buyer ON holding (buyer, sale);
