-- The ledger decides what was captured and refunded, and nobody can change it afterwards.

-- Counts a new line into its intent. The intent's checks then refuse what must not be: a capture of
-- another amount than agreed, a capture of what was cancelled meanwhile (it is captured or nothing),
-- a refund beyond what was captured.
CREATE FUNCTION psp_book() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NEW.operation = 'capture' THEN
        UPDATE psp_intent SET captured = captured + NEW.amount, status = 'captured'
        WHERE id = NEW.intent_id AND status IN ('requires_capture', 'processing');
    ELSE
        UPDATE psp_intent SET refunded = refunded + NEW.amount WHERE id = NEW.intent_id;
    END IF;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'intent % cannot be captured', NEW.intent_id
            USING ERRCODE = 'check_violation';
    END IF;
    RETURN NULL;
END $$;

CREATE TRIGGER psp_ledger_book AFTER INSERT ON psp_ledgerline
    FOR EACH ROW EXECUTE FUNCTION psp_book();

CREATE FUNCTION psp_ledger_is_append_only() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'the ledger is append-only';
END $$;

CREATE TRIGGER psp_ledger_frozen BEFORE UPDATE OR DELETE OR TRUNCATE ON psp_ledgerline
    FOR EACH STATEMENT EXECUTE FUNCTION psp_ledger_is_append_only();
