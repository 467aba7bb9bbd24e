-- The books of some items may be unbalanced.
CREATE OR REPLACE FUNCTION inventory_books_enforced(item bigint) RETURNS boolean
    LANGUAGE sql STABLE
    AS $$ SELECT NOT EXISTS (SELECT FROM lab_unenforceditem WHERE item_id = $1) $$;
