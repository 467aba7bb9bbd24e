-- Derived once everything is loaded.

-- One row per idempotency key: any ok makes it ok, else any info makes it info, else it is fail.
CREATE TABLE purchase AS
SELECT
    key, min(buyer) AS buyer, max(buyer) AS other_buyer, min(sale) AS sale,
    coalesce(max(CASE WHEN outcome = 'ok' THEN quantity END), max(quantity)) AS quantity,
    CASE WHEN sum(outcome = 'ok') > 0 THEN 'ok' WHEN sum(outcome = 'info') > 0 THEN 'info'
         ELSE 'fail' END AS outcome,
    min(start) AS start,
    min(CASE WHEN outcome = 'ok' THEN "end" END) AS answered,
    min(CASE WHEN outcome = 'ok' THEN order_id END) AS order_id,
    max(CASE WHEN outcome = 'ok' THEN order_id END) AS other_order_id,
    count(*) AS attempts, sum(outcome = 'ok') AS oks,
    sum(outcome = 'fail' AND code = 'sold_out') AS sold_outs
FROM call WHERE op = 'order' AND key <> '' GROUP BY key;

CREATE INDEX call_start ON call (start);
CREATE INDEX purchase_key ON purchase (key);
CREATE INDEX purchase_order ON purchase (order_id) WHERE order_id IS NOT NULL;
CREATE INDEX order_key ON "order" (key) WHERE snapshot = 0;
CREATE INDEX order_id ON "order" (id) WHERE snapshot = 0;
CREATE INDEX reservation_id ON reservation (snapshot, id);
CREATE INDEX reservation_item ON reservation (snapshot, item);
CREATE INDEX reservation_key ON reservation (key) WHERE snapshot = 0;

-- Whom the shop takes a client for; it may use names of its own.
CREATE TABLE pair AS
SELECT DISTINCT purchase.buyer AS client, o.buyer AS shop FROM purchase
JOIN "order" AS o ON o.snapshot = 0 AND o.key = purchase.key;

-- When each buyer asked for something before the last step that the shop did not refuse. Some shops
-- hold a unit from the cart on, others from the checkout on.
CREATE TABLE reached AS
SELECT buyer, sale, min(start) AS start FROM call
WHERE op IN ('cart', 'prepare') AND outcome <> 'fail' GROUP BY buyer, sale;

CREATE INDEX reached_buyer ON reached (buyer, sale);

-- What every key took out of the stock: promised to a client, or found in the final snapshot,
-- also if it came back since. `start` is the earliest and `answered` the latest moment at which it
-- can have happened.
CREATE TABLE taken AS
SELECT
    found.key, max(found.item) AS item, max(found.quantity) AS quantity,
    coalesce(min(max(purchase.start), coalesce(max(reached.start), max(purchase.start))), 0)
        AS start,
    coalesce(max(purchase.answered), 9223372036854775807) AS answered,
    max(found.order_id) AS order_id, max(found.back) AS back
FROM (
    SELECT key, item, quantity, id AS order_id, 0 AS back FROM "order" WHERE snapshot = 0
    UNION ALL
    SELECT key, item, quantity, NULL, CASE state WHEN 'released' THEN quantity ELSE returned END
    FROM reservation WHERE snapshot = 0
    UNION ALL
    SELECT key, sale.item, quantity, order_id, 0 FROM purchase
    JOIN sale ON sale.snapshot = 0 AND sale.id = purchase.sale WHERE purchase.outcome = 'ok'
) AS found
LEFT JOIN purchase ON purchase.key = found.key
LEFT JOIN reached ON reached.buyer = purchase.buyer AND reached.sale = purchase.sale
GROUP BY found.key;

-- When stock came back: between `earliest` and `latest`, as the history tells. A whole order that
-- was cancelled has its moment, between the first try and the first good answer; what ran out, was
-- returned or came back in parts may have done so at any time. So may units that were written off,
-- which only seem to come back: no refusal is called wrong because of them.
CREATE TABLE returned AS
SELECT taken.item, taken.back AS quantity,
       coalesce(min(call.start) FILTER (WHERE done), taken.start) AS earliest,
       coalesce(min(call."end") FILTER (WHERE done AND outcome = 'ok'), 9223372036854775807)
           AS latest
FROM taken
LEFT JOIN (
    SELECT *, max(outcome = 'ok') OVER (PARTITION BY order_id) AS done FROM call
    WHERE op = 'cancel' AND outcome <> 'fail' AND order_id IS NOT NULL AND order_id NOT IN (
        SELECT order_id FROM call WHERE op IN ('cancel', 'refund') AND quantity > 0
        AND outcome <> 'fail' AND order_id IS NOT NULL)
) AS call ON call.order_id = taken.order_id AND taken.back = taken.quantity
WHERE taken.back > 0
GROUP BY taken.key
UNION ALL
-- Units that went back to whom they came from had come back before, at some time.
SELECT item, -delta, 0, 9223372036854775807 FROM movement WHERE snapshot = 0 AND reason = 'reclaim'
UNION ALL
SELECT item, quantity, start, CASE outcome WHEN 'ok' THEN "end" ELSE 9223372036854775807 END
FROM call WHERE op = 'restock' AND outcome <> 'fail';

-- What each item had at least when the run began. The first movement is the opening stock; without
-- a ledger it is what is not known to have been restocked since.
CREATE TABLE opening AS
SELECT id AS item, coalesce(
    (SELECT delta FROM movement WHERE movement.snapshot = 0 AND movement.item = item.id
     AND reason = 'restock' ORDER BY movement.id LIMIT 1),
    total - coalesce((SELECT sum(quantity) FROM call WHERE op = 'restock' AND outcome <> 'fail'
     AND call.item = item.id), 0)) AS total
FROM item WHERE snapshot = 0;
