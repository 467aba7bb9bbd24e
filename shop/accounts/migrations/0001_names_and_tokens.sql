-- The database's own normal form of a user name. From PostgreSQL 18 on it is that of
-- shop/accounts/usernames.py, for every character. Before, there is no case folding: it knows ASCII's
-- capital letters and all that NFKC knows, and the rest is up to the shop.
DO $$
BEGIN
    IF current_setting('server_encoding') <> 'UTF8' THEN
        RAISE EXCEPTION 'the database''s encoding must be UTF8, not %; create it anew',
            current_setting('server_encoding');
    ELSIF current_setting('server_version_num')::int >= 180000 THEN
        CREATE OR REPLACE FUNCTION accounts_normal_username(name text) RETURNS text
            LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
            RETURN normalize(casefold(name COLLATE pg_unicode_fast), NFKC);
    ELSE
        CREATE OR REPLACE FUNCTION accounts_normal_username(name text) RETURNS text
            LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
            RETURN normalize(lower(name COLLATE "C"), NFKC);
    END IF;
END $$;

ALTER TABLE accounts_user ADD CONSTRAINT accounts_user_username_is_normal
    CHECK (username = accounts_normal_username(username));

-- Starts the next generation of a user's tokens: see TokenGeneration in shop/accounts/models.py. A
-- trigger, since accounts are changed in many ways: pages, admin, commands, a console. Its time is
-- not the transaction's, which may have begun long before.
CREATE FUNCTION accounts_revoke_tokens() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO accounts_tokengeneration AS known (buyer, number, began)
        VALUES (OLD.id, 1, clock_timestamp())
    ON CONFLICT (buyer) DO UPDATE
        SET number = known.number + 1, began = excluded.began;
    RETURN NULL;
END $$;

CREATE TRIGGER accounts_revoke_tokens AFTER UPDATE ON accounts_user FOR EACH ROW
    WHEN (OLD.is_active AND NOT NEW.is_active OR OLD.password <> NEW.password)
    EXECUTE FUNCTION accounts_revoke_tokens();

CREATE TRIGGER accounts_revoke_tokens_of_deleted AFTER DELETE ON accounts_user FOR EACH ROW
    EXECUTE FUNCTION accounts_revoke_tokens();
