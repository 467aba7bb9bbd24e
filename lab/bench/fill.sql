-- One finished sale, as the shop leaves it: every unit sold, every order fulfilled, every message
-- done. It was free, so that no order needs a payment. The tables are those that a purchase writes.
--
-- Parameters: number (of the sale, from 0), units (each bought by another buyer), item and sale (ids
-- of the first sale's), first (id of its first reservation and order), buyer (id of the first buyer),
-- buyers (how many there are), batch (purchases per transaction of the shop), product.

INSERT INTO inventory_item (id, name, total, available, reserved, ledger, fence, version)
VALUES (%(item)s + %(number)s, 'Sold earlier', %(units)s, %(units)s, 0, 0, 0, 1);

INSERT INTO inventory_stockmovement (item_id, delta, reason)
VALUES (%(item)s + %(number)s, %(units)s, 'restock');

INSERT INTO shop_sale (id, product_id, item_id, price, currency, "limit", starts_at, ends_at, paused,
                       hold, restock_cancelled, restock_returned)
VALUES (%(sale)s + %(number)s, %(product)s, %(item)s + %(number)s, 0, 'CNY', 1,
        now() - interval '2 days', now() - interval '1 day', false, interval '15 minutes',
        true, true);

CREATE TEMPORARY TABLE sold ON COMMIT DROP AS
SELECT %(first)s + %(number)s::bigint * %(size)s + place AS id, place / %(batch)s AS batch,
       %(buyer)s + (%(number)s::bigint * %(size)s + place) %% %(buyers)s AS buyer
FROM generate_series(0, %(units)s - 1) AS place;

INSERT INTO inventory_reservation (id, item_id, scope, buyer, key, quantity, state, token, deadline,
                                   created)
SELECT id, %(item)s + %(number)s, %(sale)s + %(number)s, buyer, gen_random_uuid(), 1, 'confirmed',
       batch + 1, now() - interval '1 day', now() - interval '2 days'
FROM sold;

INSERT INTO inventory_buyerquota (scope, buyer, used, allowed)
SELECT %(sale)s + %(number)s, buyer, 1, 1 FROM sold;

INSERT INTO inventory_stockmovement (item_id, delta, reason, token)
SELECT %(item)s + %(number)s, -count(*), 'sale', batch + 1 FROM sold GROUP BY batch;

UPDATE inventory_item
SET available = 0, version = version + 1 + (%(units)s - 1) / %(batch)s,
    fence = 1 + (%(units)s - 1) / %(batch)s
WHERE id = %(item)s + %(number)s;

INSERT INTO shop_order (id, buyer_id, amount, currency, status, pay_before, created)
SELECT id, buyer, 0, 'CNY', 'fulfilled', now() - interval '1 day', now() - interval '2 days'
FROM sold;

INSERT INTO shop_orderline (reservation_id, order_id, sale_id, quantity, amount)
SELECT id, id, %(sale)s + %(number)s, 1, 0 FROM sold;

INSERT INTO inventory_outboxmessage (topic, payload, created, done, attempts)
SELECT 'orders.opened', jsonb_build_object('orders', jsonb_agg(id)), now() - interval '2 days',
       now() - interval '2 days', 1
FROM sold GROUP BY batch
