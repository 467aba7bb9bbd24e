#!/usr/bin/env bash
# The accounts of the shop; neither is a superuser.
#   shop_owner  owns the database `shop`; only migrations use it
#   shop        reads and writes rows; it cannot change tables, triggers or constraints
# Runs when the volume is empty; safe to repeat, which also sets the passwords again and gives what
# an older version of this file gave to `shop` to `shop_owner`:
#   docker compose exec postgres bash /docker-entrypoint-initdb.d/accounts.sh
set -euo pipefail

run_sql() {  # run_sql DATABASE, with the statements on its input
    psql -v ON_ERROR_STOP=1 --quiet --no-psqlrc \
        --username "${POSTGRES_USER:-postgres}" --dbname "$1"
}

role() {
    NAME=$1 PASSWORD=$2 run_sql postgres <<'SQL'
\getenv name NAME
\getenv password PASSWORD
SELECT format('CREATE ROLE %I LOGIN', :'name')
    WHERE NOT EXISTS (SELECT FROM pg_roles WHERE rolname = :'name') \gexec
ALTER ROLE :"name" PASSWORD :'password';
SQL
}

database() {
    NAME=$1 OWNER=$2 run_sql postgres <<'SQL'
\getenv name NAME
\getenv owner OWNER
SELECT format('CREATE DATABASE %I OWNER %I', :'name', :'owner')
    WHERE NOT EXISTS (SELECT FROM pg_database WHERE datname = :'name') \gexec
REVOKE ALL ON DATABASE :"name" FROM PUBLIC;
SQL
}

# Each password comes as a variable or as a file, like the image's own.
secret() {
    local file=$1_FILE
    if [ -n "${!file:-}" ]; then cat "${!file}"; else printf %s "${!1:-}"; fi
}

role shop_owner "$(secret SHOP_OWNER_DB_PASSWORD)"
role shop "$(secret SHOP_DB_PASSWORD)"
database shop shop_owner
run_sql shop <<'SQL'
REASSIGN OWNED BY shop TO shop_owner;
GRANT CONNECT ON DATABASE shop TO shop;
GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO shop;
GRANT SELECT, USAGE ON ALL SEQUENCES IN SCHEMA public TO shop;
ALTER DEFAULT PRIVILEGES FOR ROLE shop_owner IN SCHEMA public
    GRANT SELECT, INSERT, UPDATE, DELETE ON TABLES TO shop;
ALTER DEFAULT PRIVILEGES FOR ROLE shop_owner IN SCHEMA public
    GRANT SELECT, USAGE ON SEQUENCES TO shop;
SQL
