"""Prepare `manage.py` before Django reads its settings: development or production, and servers."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

import django
from django.core.management import call_command
from rich.console import Console
from rich.status import Status

from development.folder import data_folder
from development.signals import end_on_signals
from development.system_errors import (
    ROOM_FOR_NEW,
    ROOM_TO_START,
    refuse_unusable,
    told_in_one_line,
)
from shop import environment
from shop.operating.safe_start import OFFLINE_COMMANDS

if TYPE_CHECKING:
    # Imported at run time only where servers start: the demo's image has none.
    from development.embedded import EmbeddedServers

SERVER_VARIABLES = ("DATABASE_URL", "REDIS_URL", "CELERY_BROKER_URL")

NEED_NO_SERVER = OFFLINE_COMMANDS | {"lint_migrations", "messages"}
"""Commands that use neither database nor Redis, or start their own."""

NEED_SCHEMA = frozenset({"audit", "create_sale"})
"""Commands that may be the first to use the database."""


@contextmanager
def prepared(arguments: Sequence[str]) -> Iterator[None]:
    """Choose development or production; start embedded servers where no addresses are set.

    System errors end the command with a one-line message.

    Args:
        arguments: the command line, starting with the program's name.
    """
    with told_in_one_line():
        command = command_of(arguments)
        choose_mode(command, arguments)
        if not (command in NEED_NO_SERVER or {"-h", "--help", "--version"} & set(arguments)):
            start_servers(command, NEED_SCHEMA, use_embedded_servers)
        yield


def command_of(arguments: Sequence[str]) -> str:
    """Return the command of a command line."""
    return next((word for word in arguments[1:] if not word.startswith("-")), "help")


def choose_mode(command: str, arguments: Sequence[str]) -> None:
    """Choose the settings of development or production, unless the environment has.

    Without a configured database, and unless `SHOP_DEMO=0`, this is development, except that
    `check --deploy` is about production.
    """
    deployment = command == "check" and "--deploy" in arguments
    if not ("SHOP_DEMO" in os.environ or environment.is_set("DATABASE_URL") or deployment):
        os.environ["SHOP_DEMO"] = "1"
    environment.choose_settings()


def start_servers(command: str, need_schema: frozenset[str], start: Callable[[], object]) -> None:
    """Start the servers of a development machine, unless the environment names every one.

    Args:
        need_schema: commands for which the tables are created.
        start: starts them.
    """
    if not environment.switch("SHOP_DEMO") or all(map(environment.is_set, SERVER_VARIABLES)):
        return
    end_on_signals()
    start()
    if command in need_schema:
        django.setup()
        call_command("migrate", verbosity=0, interactive=False)


def use_embedded_servers() -> EmbeddedServers:
    """Start the servers of the data folder, or join their users; set the unset addresses.

    Raises:
        StackError: they do not start.
    """
    from development.embedded import EmbeddedServers
    from development.servers import Postgres, postgres_programs

    folder = data_folder() / "servers"
    exists = Postgres(folder).is_made
    refuse_unusable(folder, room=ROOM_TO_START if exists else ROOM_FOR_NEW)
    servers = EmbeddedServers(folder)
    # So that `dbshell` finds the server's own client if the system has none.
    os.environ["PATH"] = os.pathsep.join([os.environ.get("PATH", ""), str(postgres_programs())])
    with shown("Starting the database" if exists else "Creating the database (first start only)"):
        urls = servers.attach()
    for name, url in urls.as_environment().items():
        os.environ[name] = environment.text(name) or url
    # Next to the database, because both know the same orders.
    os.environ.setdefault("PSP_DATABASE", str(folder / "psp.sqlite3"))
    return servers


def shown(doing: str) -> Status:
    """Show a spinner on stderr; stdout belongs to the command's output, perhaps JSON."""
    return Console(stderr=True).status(f"{doing} …")
