"""What every `manage.py` command needs before Django's settings are read."""

from __future__ import annotations

import os

from django.core.exceptions import ImproperlyConfigured

from shop import environment
from shop.stack import postgres
from shop.stack.embedded import EmbeddedServers
from shop.stack.errors import StackError
from shop.stack.signals import end_on_signals

SERVER_VARIABLES = ("DATABASE_URL", "REDIS_URL", "CELERY_BROKER_URL")

_servers: EmbeddedServers | None = None


def prepare(*, needs_servers: bool) -> None:
    """Choose demo or production, and fill in the embedded servers' addresses where none are set.

    Without a database of the user's own, and unless `SHOP_DEMO=0` says otherwise, this is a demo.

    Raises:
        SystemExit: production settings are missing, or the embedded servers do not start.
    """
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


def embedded_servers() -> EmbeddedServers | None:
    """Return the embedded servers that this command uses, or none if it uses others."""
    return _servers


def _all_urls_set() -> bool:
    return all(environment.is_set(name) for name in SERVER_VARIABLES)


def _use_embedded_servers() -> None:
    global _servers
    _servers = EmbeddedServers(environment.data_folder() / "servers")
    # `dbshell` finds the server's own client where the system has none.
    os.environ["PATH"] = os.pathsep.join([os.environ.get("PATH", ""), str(postgres.programs())])
    for name, url in _servers.attach().as_environment().items():
        os.environ[name] = environment.text(name) or url
