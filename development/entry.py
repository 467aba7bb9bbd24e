"""Prepare `manage.py` before Django reads its settings: development or production, and servers."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import django
from django.core.management import call_command
from rich.console import Console
from rich.status import Status

from development import postgres
from development.embedded import EmbeddedServers
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

SERVER_VARIABLES = ("DATABASE_URL", "REDIS_URL", "CELERY_BROKER_URL")

NEED_NO_SERVER = OFFLINE_COMMANDS | {"lint_migrations"}
"""Commands that use neither database nor Redis, or start their own."""

NEED_SCHEMA = {"audit", "create_sale"}
"""Commands that may be the first to use the database."""


@contextmanager
def prepared(arguments: Sequence[str]) -> Iterator[None]:
    """Choose development or production; start embedded servers where no addresses are set.

    Without a configured database, and unless `SHOP_DEMO=0`, this is development, except that
    `check --deploy` is about production. System errors end the command with a one-line message.

    Args:
        arguments: the command line, starting with the program's name.
    """
    with told_in_one_line():
        _prepare(arguments)
        yield


def _prepare(arguments: Sequence[str]) -> None:
    command = next((word for word in arguments[1:] if not word.startswith("-")), "help")
    deployment = command == "check" and "--deploy" in arguments
    if not ("SHOP_DEMO" in os.environ or environment.is_set("DATABASE_URL") or deployment):
        os.environ["SHOP_DEMO"] = "1"
    environment.choose_settings()
    offline = command in NEED_NO_SERVER or {"-h", "--help", "--version"} & set(arguments)
    if offline or all_urls_set() or not environment.switch("SHOP_DEMO"):
        return
    end_on_signals()
    use_embedded_servers()
    if command in NEED_SCHEMA:
        django.setup()
        call_command("migrate", verbosity=0, interactive=False)


def all_urls_set() -> bool:
    """Whether the environment names every server."""
    return all(environment.is_set(name) for name in SERVER_VARIABLES)


def use_embedded_servers() -> EmbeddedServers:
    """Start the servers of the data folder, or join their users; set the unset addresses.

    Raises:
        StackError: they do not start.
    """
    folder = data_folder() / "servers"
    exists = (postgres.data_folder(folder) / "PG_VERSION").exists()
    refuse_unusable(folder, room=ROOM_TO_START if exists else ROOM_FOR_NEW)
    servers = EmbeddedServers(folder)
    # So that `dbshell` finds the server's own client if the system has none.
    os.environ["PATH"] = os.pathsep.join([os.environ.get("PATH", ""), str(postgres.programs())])
    with shown("Starting the database" if exists else "Creating the database (first start only)"):
        urls = servers.attach()
    for name, url in urls.as_environment().items():
        os.environ[name] = environment.text(name) or url
    return servers


def shown(doing: str) -> Status:
    """Show a spinner on stderr; stdout belongs to the command's output, perhaps JSON."""
    return Console(stderr=True).status(f"{doing} …")
