"""Prepare `manage.py` before Django reads its settings: demo or production, and servers."""

from __future__ import annotations

import atexit
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

import django
from django.core.management import call_command
from rich.console import Console
from rich.status import Status

from development.ports import asked_or_free
from development.signals import end_on_signals
from development.system_errors import (
    told_in_one_line,
)
from lab import environment
from shop.operating.safe_start import OFFLINE_COMMANDS

if TYPE_CHECKING:
    # Imported at run time only for embedded servers, which the production image does not have.
    from development.embedded import EmbeddedServers
    from lab.bed.bed import Bed

SERVER_VARIABLES = ("DATABASE_URL", "REDIS_URL", "CELERY_BROKER_URL")

PSP_ADDRESS = "psp-url"
"""In the demo's folder: the payment provider's address."""

_servers: EmbeddedServers | None = None
_private = False
_bed: Bed | None = None
_own = ExitStack()


NEED_NO_SERVER = OFFLINE_COMMANDS | {
    *("lesson", "explore", "bench_locks", "lint_migrations", "reset", "soak"),
    *("prove_shop", "host_shop"),
}
"""Commands that use neither database nor Redis, or manage the servers themselves."""

NEEDS_NO_SERVER = {"-h", "--help", "--version", "--redraw"}
"""Options with which no command needs servers."""

BREAKS_SERVERS = ("--fault", "--control")
"""Options of `prove` that break its servers, so that it needs private ones."""

FILLS_SERVERS = {"bench", "duel", "prove", "walk"}
"""Commands whose purchases would flood a demo's mail folder, or whose payments misbehave."""

NEED_SCHEMA = {"audit", "create_sale", "seed"}
"""Commands that may be the first to use the demo's database."""


@contextmanager
def prepared(arguments: Sequence[str]) -> Iterator[None]:
    """Choose demo or production; fill in the embedded servers' addresses where none are set.

    Without a configured database, and unless `SHOP_DEMO=0`, this is a demo, except that
    `check --deploy` is about production. System errors end the command with a one-line message.

    Args:
        arguments: the command line, starting with the program's name.

    Raises:
        SystemExit: production settings are missing, the embedded servers do not start, or a port
            is in use.
    """
    with told_in_one_line():
        _prepare(arguments)
        yield


def _prepare(arguments: Sequence[str]) -> None:
    command = next((word for word in arguments[1:] if not word.startswith("-")), "help")
    needs_servers = command not in NEED_NO_SERVER and not NEEDS_NO_SERVER & set(arguments)
    if command == "demo" and needs_servers:
        # Report a port in use before anything starts.
        for variable in filter(environment.is_set, ("SHOP_PORT", "LOCUST_PORT")):
            asked_or_free(variable)
    breaks = command == "prove" and any(word.startswith(BREAKS_SERVERS) for word in arguments)
    private = command in FILLS_SERVERS and not environment.is_set("DATABASE_URL")
    deployment = command == "check" and "--deploy" in arguments
    if needs_servers and command == "prove" and (bed := _option(arguments, "--bed")):
        _use_bed(bed)
    elif needs_servers and (breaks or private):
        _use_private_servers(with_small_disk=breaks)
    elif not ("SHOP_DEMO" in os.environ or environment.is_set("DATABASE_URL") or deployment):
        os.environ["SHOP_DEMO"] = "1"
    environment.choose_settings()
    if not needs_servers or _private:
        return
    if environment.switch("SHOP_DEMO") and not _all_urls_set():
        end_on_signals()
        _use_embedded_servers()
        if command in NEED_SCHEMA:
            django.setup()
            call_command("migrate", verbosity=0, interactive=False)


def has_private_servers() -> bool:
    """Whether this command's servers are private, so that it may break them."""
    return _private


def embedded_servers() -> EmbeddedServers | None:
    """Return the embedded servers that this command uses; None if it uses others."""
    return _servers


def bed() -> Bed | None:
    """Return the test bed that this command uses; None if all is on this machine."""
    return _bed


def _option(arguments: Sequence[str], name: str) -> str:
    """Return the value of an option, before Django has read the command line."""
    for at, word in enumerate(arguments):
        given, _, value = word.partition("=")
        if given == name:
            return value or next(iter(arguments[at + 1 :]), "")
    return ""


def _use_bed(name: str) -> None:
    from lab.bed.bed import started
    from lab.bed.description import names
    from lab.stack.proxies import libfaketime, under_clock

    global _bed, _servers, _private
    if name not in names():
        sys.exit(f"error: no test bed is called {name!r}; there are {', '.join(names())}.")
    end_on_signals()
    os.environ["SHOP_DEMO"] = "1"
    atexit.register(_own.close)
    with _shown(f"Starting the hosts and servers of the bed {name}"):
        clock = under_clock if libfaketime() else None
        _bed = _own.enter_context(started(name, under_clock=clock))
    _servers, _private = _bed.servers, True
    os.environ.update(_bed.urls.as_environment())


def _all_urls_set() -> bool:
    return all(environment.is_set(name) for name in SERVER_VARIABLES)


def _use_private_servers(*, with_small_disk: bool) -> None:
    from development.embedded import private_servers
    from lab.stack.proxies import small_disk

    global _servers, _private
    end_on_signals()
    os.environ["SHOP_DEMO"] = "1"
    with _shown("Creating a private database"):
        disk = small_disk if with_small_disk else None
        _servers = _own.enter_context(private_servers(disk=disk))
    atexit.register(_own.close)
    _private = True
    os.environ.update(_servers.urls.as_environment())


def _use_embedded_servers() -> None:
    from development.entry import use_embedded_servers

    global _servers
    _servers = use_embedded_servers()
    os.environ.setdefault("PSP_DATABASE", str(_servers.folder / "psp.sqlite3"))
    address = environment.data_folder() / "demo" / PSP_ADDRESS
    if address.exists() and not environment.is_set("PSP_URL"):
        # `manage.py audit` beside a demo compares with that demo's payment provider.
        os.environ["PSP_URL"] = address.read_text()


def _shown(doing: str) -> Status:
    """Show a spinner on stderr; stdout belongs to the command's output, perhaps JSON."""
    return Console(stderr=True).status(f"{doing} …")
