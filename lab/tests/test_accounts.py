"""The accounts that docker/postgres/accounts.sh makes: each may do its work and no more."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import psycopg
import pytest
from psycopg.errors import InsufficientPrivilege

from development.embedded import ServerUrls, private_servers
from development.servers import postgres_programs
from lab import environment
from lab.tests.whole_shop import manage
from shop.tests.processes import succeed

pytestmark = pytest.mark.long

SCRIPT = environment.PROJECT / "docker/postgres/accounts.sh"
PASSWORDS = {"SHOP_OWNER_DB_PASSWORD": "o" * 8, "SHOP_DB_PASSWORD": "s" * 8}


class Server:
    """A private PostgreSQL with the accounts."""

    def __init__(self, urls: ServerUrls) -> None:
        self.urls = urls
        self.parts = urlsplit(urls.database)
        # As in the image: the embedded server's superuser and database are named `shop`.
        with psycopg.connect(urls.database, autocommit=True) as connection:
            connection.execute("CREATE ROLE renamer SUPERUSER LOGIN PASSWORD 'renamer'")
        with psycopg.connect(self.url("renamer", "renamer", "postgres")) as connection:
            connection.execute("ALTER ROLE shop RENAME TO postgres")
            connection.execute("ALTER DATABASE shop RENAME TO unused")

    def make_accounts(self) -> None:
        """Run the script as the image's entry point does."""
        programs = str(Path(postgres_programs()))
        variables = {
            "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}",
            "PGHOST": str(self.parts.hostname),
            "PGPORT": str(self.parts.port),
            "PGPASSWORD": str(self.parts.password),
            **PASSWORDS,
        }
        succeed("bash", SCRIPT, env=variables)

    def url(self, account: str, password: str, database: str = "shop") -> str:
        """Return the URL with which an account connects."""
        host = f"{self.parts.hostname}:{self.parts.port}"
        return f"postgresql://{account}:{password}@{host}/{database}"

    @property
    def shop(self) -> str:
        """The URL of the shop's account."""
        return self.url("shop", PASSWORDS["SHOP_DB_PASSWORD"])

    def manage(self, url: str, *arguments: str) -> None:
        """Run a command of the shop with an account; it must succeed."""
        # Nobody listens there. On the provider's usual port, another test's may answer the audit.
        manage(self.urls, *arguments, DATABASE_URL=url, PSP_URL="http://127.0.0.1:9")


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with private_servers(durable=False) as servers:
        server = Server(servers.urls)
        server.make_accounts()
        owner = server.url("shop_owner", PASSWORDS["SHOP_OWNER_DB_PASSWORD"])
        server.manage(owner, "migrate", "--no-input")
        yield server


def test_shop_account_sells(server: Server) -> None:
    server.manage(server.shop, "create_sale", "--stock", "5", "--price", "999")
    server.manage(server.shop, "audit")


def test_shop_account_deactivates_users_and_revokes_their_tokens(server: Server) -> None:
    with psycopg.connect(server.shop) as connection:
        [user] = connection.execute(
            "INSERT INTO accounts_user (username, password, first_name, last_name, email,"
            " is_superuser, is_staff, is_active, date_joined)"
            " VALUES ('ann', '!', '', '', '', false, false, true, now()) RETURNING id"
        ).fetchall()[0]
        connection.execute("UPDATE accounts_user SET is_active = false WHERE id = %s", [user])
        found = connection.execute("SELECT buyer, number FROM accounts_tokengeneration").fetchall()
    assert found == [(user, 1)]


@pytest.mark.parametrize(
    "statement",
    [
        "ALTER TABLE inventory_item DISABLE TRIGGER ALL",
        "ALTER TABLE inventory_item DROP CONSTRAINT inventory_item_available_within_total",
        "DROP TABLE inventory_stockmovement",
        "TRUNCATE inventory_stockmovement",
        "ALTER TABLE accounts_user DROP CONSTRAINT accounts_user_username_is_normal",
        "DROP TRIGGER accounts_revoke_tokens ON accounts_user",
        "CREATE TABLE own (id int)",
        "SET session_replication_role = replica",
        "CREATE ROLE another SUPERUSER",
    ],
)
def test_shop_account_cannot_get_round_the_guard(server: Server, statement: str) -> None:
    with psycopg.connect(server.shop) as connection, pytest.raises(InsufficientPrivilege):
        connection.execute(statement)


def test_volume_with_tables_of_the_shop_account_is_converted(server: Server) -> None:
    with psycopg.connect(server.url("postgres", str(server.parts.password))) as connection:
        connection.execute("ALTER TABLE shop_order OWNER TO shop")
    server.make_accounts()
    with psycopg.connect(server.shop) as connection:
        connection.execute("SELECT count(*) FROM shop_order")
        with pytest.raises(InsufficientPrivilege):
            connection.execute("ALTER TABLE shop_order ADD COLUMN more int")
