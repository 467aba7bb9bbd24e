-- The books must balance at every commit. These triggers keep two counters on the item, and a
-- deferred constraint compares them with what the application wrote:
--
--     available + reserved = total        (nothing oversold, nothing leaked)
--     ledger = available                  (every change has its movement)
--
-- They run once a statement, not once a row, so a batch of 100 sales pays for them once.

-- Part of a reservation may be given back: what counts as reserved is what is left of it.
CREATE FUNCTION inventory_count_reserved() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    -- Only one of the two transition tables exists in INSERT and DELETE, hence the branches.
    IF TG_OP = 'INSERT' THEN
        UPDATE inventory_item SET reserved = reserved + change.units
        FROM (SELECT item_id, sum(quantity - returned) AS units FROM added
              WHERE state <> 'released' GROUP BY item_id) AS change
        WHERE id = change.item_id AND change.units <> 0;
    ELSIF TG_OP = 'DELETE' THEN
        UPDATE inventory_item SET reserved = reserved - change.units
        FROM (SELECT item_id, sum(quantity - returned) AS units FROM removed
              WHERE state <> 'released' GROUP BY item_id) AS change
        WHERE id = change.item_id AND change.units <> 0;
    ELSE
        -- Held to confirmed nets to zero: a payment does not touch the hot row.
        UPDATE inventory_item SET reserved = reserved + change.units
        FROM (SELECT item_id, sum(units) AS units FROM (
                  SELECT item_id, quantity - returned AS units FROM added
                  WHERE state <> 'released'
                  UNION ALL
                  SELECT item_id, returned - quantity FROM removed WHERE state <> 'released'
              ) AS both_sides GROUP BY item_id) AS change
        WHERE id = change.item_id AND change.units <> 0;
    END IF;
    RETURN NULL;
END $$;

CREATE TRIGGER inventory_reserved_insert AFTER INSERT ON inventory_reservation
    REFERENCING NEW TABLE AS added
    FOR EACH STATEMENT EXECUTE FUNCTION inventory_count_reserved();
CREATE TRIGGER inventory_reserved_update AFTER UPDATE ON inventory_reservation
    REFERENCING OLD TABLE AS removed NEW TABLE AS added
    FOR EACH STATEMENT EXECUTE FUNCTION inventory_count_reserved();
CREATE TRIGGER inventory_reserved_delete AFTER DELETE ON inventory_reservation
    REFERENCING OLD TABLE AS removed
    FOR EACH STATEMENT EXECUTE FUNCTION inventory_count_reserved();

CREATE FUNCTION inventory_sum_ledger() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    UPDATE inventory_item SET ledger = ledger + change.units
    FROM (SELECT item_id, sum(delta) AS units FROM added GROUP BY item_id) AS change
    WHERE id = change.item_id;
    RETURN NULL;
END $$;

CREATE TRIGGER inventory_ledger_insert AFTER INSERT ON inventory_stockmovement
    REFERENCING NEW TABLE AS added
    FOR EACH STATEMENT EXECUTE FUNCTION inventory_sum_ledger();

CREATE FUNCTION inventory_ledger_is_append_only() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'the ledger is append-only: correct a movement with another one'
        USING ERRCODE = 'integrity_constraint_violation';
END $$;

CREATE TRIGGER inventory_ledger_frozen BEFORE UPDATE OR DELETE ON inventory_stockmovement
    FOR EACH STATEMENT EXECUTE FUNCTION inventory_ledger_is_append_only();

-- Whether commits that unbalance an item's books are refused: always. A function of its own, which
-- a laboratory may replace to show what happens without; it is asked only where the books of an
-- item do not balance.
CREATE FUNCTION inventory_books_enforced(item bigint) RETURNS boolean LANGUAGE sql STABLE
    AS $$ SELECT true $$;

CREATE FUNCTION inventory_check_books() RETURNS trigger LANGUAGE plpgsql AS $$
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

CREATE FUNCTION inventory_fence_never_falls() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'item %: fencing token % is older than %', OLD.id, NEW.fence, OLD.fence
        USING ERRCODE = 'check_violation', CONSTRAINT = 'inventory_item_fence_never_falls';
END $$;

CREATE TRIGGER inventory_item_fence BEFORE UPDATE ON inventory_item
    FOR EACH ROW WHEN (NEW.fence < OLD.fence)
    EXECUTE FUNCTION inventory_fence_never_falls();

-- One hot row is updated thousands of times: leave room on its page so that updates stay there
-- (heap-only tuples) and need no index write.
ALTER TABLE inventory_item SET (fillfactor = 20);

-- Ends a message of several statements before its COMMIT, by an SQLSTATE of our own: see
-- REFUSED in inventory/selling/commit.py.
CREATE FUNCTION inventory_require(holds boolean) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    IF NOT holds THEN RAISE EXCEPTION 'the guard refused' USING ERRCODE = 'IN001'; END IF;
END $$;
