#!/usr/bin/env bash
# The shop's account and database, and those of the demo's payment provider where a password is
# given for it. Neither is a superuser. Runs when the volume is empty; safe to repeat, which also
# sets the passwords again:
#   docker compose exec postgres bash /docker-entrypoint-initdb.d/accounts.sh
set -euo pipefail

give() {
    NAME=$1 PASSWORD=$2 psql -v ON_ERROR_STOP=1 --quiet --no-psqlrc \
        --username "${POSTGRES_USER:-postgres}" --dbname postgres <<'SQL'
\getenv name NAME
\getenv password PASSWORD
SELECT format('CREATE ROLE %I LOGIN', :'name')
    WHERE NOT EXISTS (SELECT FROM pg_roles WHERE rolname = :'name') \gexec
SELECT format('CREATE DATABASE %I OWNER %I', :'name', :'name')
    WHERE NOT EXISTS (SELECT FROM pg_database WHERE datname = :'name') \gexec
ALTER ROLE :"name" PASSWORD :'password';
REVOKE ALL ON DATABASE :"name" FROM PUBLIC;
SQL
}

# Each password comes as a variable or as a file, like the image's own.
secret() {
    local file=$1_FILE
    if [ -n "${!file:-}" ]; then cat "${!file}"; else printf %s "${!1:-}"; fi
}

give shop "$(secret SHOP_DB_PASSWORD)"
provider=$(secret PSP_DB_PASSWORD)
[ -z "$provider" ] || give psp "$provider"
