-- Items whose books did not balance before were those of demonstrations.
INSERT INTO lab_unenforceditem (item_id)
SELECT id FROM inventory_item WHERE available + reserved <> total OR ledger <> available;

CREATE OR REPLACE FUNCTION inventory_books_enforced(item bigint) RETURNS boolean
    LANGUAGE sql STABLE
    AS $$ SELECT NOT EXISTS (SELECT FROM lab_unenforceditem WHERE item_id = $1) $$;
