"""What every `manage.py` command needs before Django's settings are read."""

from __future__ import annotations

import os

from django.core.exceptions import ImproperlyConfigured

from shop import environment
from shop.stack.embedded import EmbeddedServers
from shop.stack.errors import StackError

SERVER_VARIABLES = ("DATABASE_URL", "REDIS_URL", "CELERY_BROKER_URL")


def prepare(*, needs_servers: bool) -> None:
    """Choose demo or production, and fill in the embedded servers' addresses where none are set.

    Without a database of the user's own, and unless `SHOP_DEMO=0` says otherwise, this is a demo.

    Raises:
        SystemExit: production settings are missing, or the embedded servers do not start.
    """
    if "SHOP_DEMO" not in os.environ and not environment.is_set("DATABASE_URL"):
        os.environ["SHOP_DEMO"] = "1"
    try:
        if needs_servers:
            if environment.switch("SHOP_DEMO"):
                use_embedded_servers()
            environment.refuse_unsafe_start()
    except (ImproperlyConfigured, StackError) as error:
        raise SystemExit(f"error: {error}") from error


def use_embedded_servers() -> EmbeddedServers | None:
    """Start or join the embedded servers and export their URLs, unless all URLs are set.

    Raises:
        StackError: the servers do not come up.
    """
    if all(environment.is_set(name) for name in SERVER_VARIABLES):
        return None
    servers = EmbeddedServers(environment.data_folder() / "servers")
    for name, url in servers.attach().as_environment().items():
        os.environ[name] = environment.text(name) or url
    return servers
