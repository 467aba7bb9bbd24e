-- Whether commits that unbalance an item's books are refused: always. A function of its own, which
-- a laboratory may replace to show what happens without; it is asked only where the books of an
-- item do not balance.
CREATE FUNCTION inventory_books_enforced(item bigint) RETURNS boolean LANGUAGE sql STABLE
    AS $$ SELECT true $$;

CREATE OR REPLACE FUNCTION inventory_check_books() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    book inventory_item;
BEGIN
    -- The row as it is at commit, not as it was when this check was queued.
    SELECT * INTO book FROM inventory_item WHERE id = NEW.id;
    IF NOT FOUND
       OR (book.available + book.reserved = book.total AND book.ledger = book.available)
       OR NOT inventory_books_enforced(book.id) THEN
        RETURN NULL;
    END IF;
    IF book.available + book.reserved <> book.total THEN
        RAISE EXCEPTION 'item %: available % + reserved % is not total %',
            book.id, book.available, book.reserved, book.total
            USING ERRCODE = 'check_violation', CONSTRAINT = 'inventory_item_conserved';
    END IF;
    RAISE EXCEPTION 'item %: the ledger says %, available is %',
        book.id, book.ledger, book.available
        USING ERRCODE = 'check_violation', CONSTRAINT = 'inventory_item_ledger_adds_up';
END $$;

-- WHEN keeps the check out of the queue for versions of the row that balance already; an
-- unbalanced one inside a transaction is normal and is looked at again at commit.
CREATE CONSTRAINT TRIGGER inventory_item_books AFTER INSERT OR UPDATE ON inventory_item
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW
    WHEN (NEW.available + NEW.reserved <> NEW.total OR NEW.ledger <> NEW.available)
    EXECUTE FUNCTION inventory_check_books();
