-- Part of a reservation may be given back: what counts as reserved is what is left of it.

CREATE OR REPLACE FUNCTION inventory_count_reserved() RETURNS trigger LANGUAGE plpgsql AS $$
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
