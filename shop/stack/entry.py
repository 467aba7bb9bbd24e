"""What every `manage.py` command needs before Django's settings are read."""

from __future__ import annotations

import atexit
import os
from contextlib import ExitStack
from typing import TYPE_CHECKING

from django.core.exceptions import ImproperlyConfigured

from shop import environment
from shop.stack.errors import StackError
from shop.stack.signals import end_on_signals

if TYPE_CHECKING:
    # At run time only where embedded servers are used: the production image has none.
    from shop.stack.embedded import EmbeddedServers

SERVER_VARIABLES = ("DATABASE_URL", "REDIS_URL", "CELERY_BROKER_URL")

PSP_ADDRESS = "psp-url"
"""In the demo's folder: where its payment provider listens."""

_servers: EmbeddedServers | None = None
_private = False
_own = ExitStack()


def prepare(*, needs_servers: bool, private: bool = False, breaks: bool = False) -> None:
    """Choose demo or production, and fill in the embedded servers' addresses where none are set.

    Without a database of the user's own, and unless `SHOP_DEMO=0` says otherwise, this is a demo.

    Args:
        needs_servers: whether the command uses PostgreSQL and Redis.
        private: it fills the servers with what nobody wants to keep, so it gets servers of its
            own, unless the environment names some.
        breaks: it breaks what it uses, so it gets servers of its own, whatever the environment
            names.

    Raises:
        SystemExit: production settings are missing, or the embedded servers do not start.
    """
    if breaks or (private and not environment.is_set("DATABASE_URL")):
        _use_private_servers(with_small_disk=breaks)
        return
    if "SHOP_DEMO" not in os.environ and not environment.is_set("DATABASE_URL"):
        os.environ["SHOP_DEMO"] = "1"
    if not needs_servers:
        return
    try:
        if environment.switch("SHOP_DEMO") and not _all_urls_set():
            end_on_signals()
            _use_embedded_servers()
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
    from shop.stack.embedded import private_servers

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
    from shop.stack import postgres
    from shop.stack.embedded import EmbeddedServers

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
