-- What has been asked and what has happened stays written.

CREATE FUNCTION shop_timeline_is_append_only() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'the timeline of an order is append-only'
        USING ERRCODE = 'integrity_constraint_violation';
END $$;
CREATE TRIGGER shop_orderevent_frozen BEFORE UPDATE OR DELETE ON shop_orderevent
    FOR EACH STATEMENT EXECUTE FUNCTION shop_timeline_is_append_only();

CREATE FUNCTION shop_refunds_are_never_deleted() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'a refund is never deleted: its key says that it was asked for'
        USING ERRCODE = 'integrity_constraint_violation';
END $$;
CREATE TRIGGER shop_refund_kept BEFORE DELETE ON shop_refund
    FOR EACH STATEMENT EXECUTE FUNCTION shop_refunds_are_never_deleted();
