"""What `manage.py` needs before Django reads its settings: demo or production, and servers."""

from __future__ import annotations

import atexit
import os
from collections.abc import Sequence
from contextlib import ExitStack

import django
from django.core.exceptions import ImproperlyConfigured
from django.core.management import call_command

from lab import environment
from lab.stack import postgres
from lab.stack.embedded import EmbeddedServers, private_servers
from lab.stack.errors import StackError
from lab.stack.signals import end_on_signals

SERVER_VARIABLES = ("DATABASE_URL", "REDIS_URL", "CELERY_BROKER_URL")

PSP_ADDRESS = "psp-url"
"""In the demo's folder: where its payment provider listens."""

_servers: EmbeddedServers | None = None
_private = False
_own = ExitStack()


NEED_NO_SERVER = {
    *("help", "version", "check", "makemigrations", "makemessages", "compilemessages"),
    *("collectstatic", "diffsettings", "startapp", "startproject", "findstatic", "test"),
    *("lesson", "explore", "bench_locks", "reset", "soak"),
}
"""Commands that touch neither database nor Redis, or look after the servers themselves."""

BREAKS_SERVERS = ("--fault", "--control")
"""Options of `prove` that break the servers, so that it needs its own."""

FILLS_SERVERS = {"bench", "compare", "prove"}
"""Commands that make thousands of purchases, which no demo should have to send mails for."""

NEED_SCHEMA = {"audit", "create_sale", "seed"}
"""Commands that may be the first to use the demo's own database."""


def prepare(arguments: Sequence[str]) -> None:
    """Choose demo or production, and fill in the embedded servers' addresses where none are set.

    Without a database of the user's own, and unless `SHOP_DEMO=0` says otherwise, this is a demo.

    Args:
        arguments: the command line, the program's name first.

    Raises:
        SystemExit: production settings are missing, or the embedded servers do not start.
    """
    command = next((word for word in arguments[1:] if not word.startswith("-")), "help")
    needs_servers = command not in NEED_NO_SERVER and not {"-h", "--help", "--version"} & set(
        arguments
    )
    breaks = command == "prove" and any(word.startswith(BREAKS_SERVERS) for word in arguments)
    private = command in FILLS_SERVERS and not environment.is_set("DATABASE_URL")
    if needs_servers and (breaks or private):
        _use_private_servers(with_small_disk=breaks)
    elif "SHOP_DEMO" not in os.environ and not environment.is_set("DATABASE_URL"):
        os.environ["SHOP_DEMO"] = "1"
    demo = environment.switch("SHOP_DEMO")
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "lab.settings" if demo else "shop.settings")
    if not needs_servers or _private:
        return
    try:
        if demo and not _all_urls_set():
            end_on_signals()
            _use_embedded_servers()
            if command in NEED_SCHEMA:
                django.setup()
                call_command("migrate", verbosity=0, interactive=False)
        environment.refuse_unsafe_start()
    except (ImproperlyConfigured, StackError) as error:
        raise SystemExit(f"error: {error}") from error


def has_private_servers() -> bool:
    """Whether this command's servers are its own, to do with as it likes."""
    return _private


def embedded_servers() -> EmbeddedServers | None:
    """Return the embedded servers that this command uses, or none if it uses others."""
    return _servers


def _all_urls_set() -> bool:
    return all(environment.is_set(name) for name in SERVER_VARIABLES)


def _use_private_servers(*, with_small_disk: bool) -> None:
    global _servers, _private
    end_on_signals()
    os.environ["SHOP_DEMO"] = "1"
    try:
        _servers = _own.enter_context(private_servers(with_small_disk=with_small_disk))
    except StackError as error:
        raise SystemExit(f"error: {error}") from error
    atexit.register(_own.close)
    _private = True
    os.environ.update(_servers.urls.as_environment())


def _use_embedded_servers() -> None:
    global _servers
    _servers = EmbeddedServers(environment.data_folder() / "servers")
    # `dbshell` finds the server's own client where the system has none.
    os.environ["PATH"] = os.pathsep.join([os.environ.get("PATH", ""), str(postgres.programs())])
    for name, url in _servers.attach().as_environment().items():
        os.environ[name] = environment.text(name) or url
    address = environment.data_folder() / "demo" / PSP_ADDRESS
    if address.exists() and not environment.is_set("PSP_URL"):
        # `manage.py audit` beside a demo compares with that demo's payment provider.
        os.environ["PSP_URL"] = address.read_text()
