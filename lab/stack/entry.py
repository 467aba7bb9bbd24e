"""Prepare `manage.py` for a demo, and give commands that break or fill servers their own."""

from __future__ import annotations

import atexit
import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from development import entry
from development.entry import choose_mode, command_of, shown, start_servers, use_embedded_servers
from development.ports import asked_or_free
from development.signals import end_on_signals
from development.system_errors import told_in_one_line
from lab import environment

if TYPE_CHECKING:
    # Imported at run time only where servers start: the demo's image has none.
    from development.embedded import EmbeddedServers

NEED_NO_SERVER = entry.NEED_NO_SERVER | {
    "lesson",
    "explore",
    "bench_locks",
    "reset",
    "prove_shop",
    "host_shop",
}
"""Commands that use neither database nor Redis, or manage the servers themselves."""

NEEDS_NO_SERVER = {"-h", "--help", "--version", "--redraw"}
"""Options with which no command needs servers."""

NEEDS_SERVERS = {"--rush"}
"""Options with which a command needs servers that needs none otherwise: `lesson`'s."""

BREAKS_SERVERS = ("--fault", "--control", "--quick")
"""Options of `prove` that break its servers, so that it needs private ones."""

IN_CONTAINERS = "--compose"
"""The option of `prove` that starts servers in containers."""

FILLS_SERVERS = {"bench", "duel", "prove", "walk"}
"""Commands whose purchases would flood a demo's mail folder, or whose payments misbehave."""

NEED_SCHEMA = entry.NEED_SCHEMA | {"seed"}
"""Commands that may be the first to use the demo's database."""


@dataclass(slots=True)
class Used:
    """The servers that this command has started or joined.

    Attributes:
        embedded: on this machine; None: it uses others.
        private: whether they are this command's own, so that it may break them.
    """

    embedded: EmbeddedServers | None = None
    private: bool = False


used = Used()
_own = ExitStack()


@contextmanager
def prepared(arguments: Sequence[str]) -> Iterator[None]:
    """Choose demo or production, as on a development machine; start the command's servers.

    Args:
        arguments: the command line, starting with the program's name.

    Raises:
        SystemExit: production settings are missing, the embedded servers do not start, or a port
            is in use.
    """
    with told_in_one_line():
        command = command_of(arguments)
        without = command in NEED_NO_SERVER and not NEEDS_SERVERS & set(arguments)
        needs_servers = not without and not NEEDS_NO_SERVER & set(arguments)
        if command == "prove" and any(word.startswith(IN_CONTAINERS) for word in arguments):
            needs_servers = False
            end_on_signals()
            os.environ["SHOP_DEMO"] = "1"
        if needs_servers:
            _use_own_servers(command, arguments)
        choose_mode(command, arguments)
        if needs_servers and not used.private:
            start_servers(command, NEED_SCHEMA, _use_shared_servers)
        yield


def _use_own_servers(command: str, arguments: Sequence[str]) -> None:
    """Start private servers, if the command needs them."""
    if command == "demo":
        # Report a port in use before anything starts.
        for variable in filter(environment.is_set, ("SHOP_PORT", "LOCUST_PORT")):
            asked_or_free(variable)
    breaks = command == "prove" and any(word.startswith(BREAKS_SERVERS) for word in arguments)
    fills = command in FILLS_SERVERS and not environment.is_set("DATABASE_URL")
    if not (breaks or fills):
        return
    end_on_signals()
    os.environ["SHOP_DEMO"] = "1"
    atexit.register(_own.close)
    _use_private_servers(with_small_disk=breaks)
    used.private = True


def _use_private_servers(*, with_small_disk: bool) -> None:
    from development.embedded import private_servers
    from lab.stack.proxies import small_disk

    with shown("Creating a private database"):
        disk = small_disk if with_small_disk else None
        used.embedded = _own.enter_context(private_servers(disk=disk))
    os.environ.update(used.embedded.urls.as_environment())


def _use_shared_servers() -> None:
    used.embedded = use_embedded_servers()
