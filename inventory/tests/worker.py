"""A second shop process, which sells on command.

It takes one command at a time and answers each with a message. A command may name a point at which
to stop: the process reports that point and waits there, to be killed or told to go on.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection
from typing import Any
from unittest import mock

import django
from django.apps import apps
from django.conf import settings
from django.test import override_settings

if not apps.ready:  # in the process that workers are forked from
    django.setup()

from inventory import outbox, services
from inventory.metrics import metrics
from inventory.redis import ITEM_LOCK
from inventory.selling import batch
from inventory.selling.seller import Seller, seller
from inventory.tests.helpers import crowd, open_nothing


class _Shop:
    """What runs in the process; a command is a method and its arguments."""

    def __init__(self, pipe: Connection) -> None:
        self._pipe = pipe

    def _stand_still(self, at: str) -> None:
        """Report the point and wait to be told to go on."""
        self._pipe.send(at)
        self._pipe.recv()

    def sell(self, purchases: Sequence[Any], by: str, threads: int, stop: str) -> list[Any]:
        """Sell by the seller of that dotted path; return the answers in any order."""

        def on_granted(granted: Sequence[Any]) -> list[str]:
            if stop == "before_commit":
                self._stand_still(stop)
            return open_nothing(granted)

        real = batch.sell

        def sell_and_stop(*arguments: Any, **how: Any) -> Any:
            sold = real(*arguments, **how)
            if stop == "after_commit":
                self._stand_still(stop)
            return sold

        def reserve(purchase: Any) -> Any:
            return services.reserve(purchase, on_granted)

        sold_by = override_settings(INVENTORY_SELLER=by)
        with sold_by, mock.patch.object(Seller, "sell_batch", staticmethod(sell_and_stop)):
            return crowd(reserve, purchases, threads)

    def metrics(self) -> dict[str, float]:
        """Return the counters of this process."""
        return metrics.read()

    def deliver(self, stop: str) -> int:
        """Deliver the outbox; each message's effect is another message."""

        def handle(payload: Any) -> None:
            outbox.emit("effect", payload)
            if stop == "before_commit":
                self._stand_still(stop)

        return outbox.deliver({"cause": handle})


def serve(pipe: Connection, setup: dict[str, Any]) -> None:
    """Set up, then execute commands until the pipe is closed.

    Args:
        pipe: brings commands, takes their results.
        setup: `database` (its name) and `redis` (its URL); optionally `port` (of the
            database), `pool_timeout` and `lease` (in seconds), `override` (settings), and
            `prepare` (a function to call first).
    """
    database = settings.DATABASES["default"]
    database["NAME"] = setup["database"]
    database["PORT"] = setup.get("port") or database.get("PORT", "")
    options = database.setdefault("OPTIONS", {})
    pool = options.get("pool")
    # Seconds that a purchase waits for an unreachable database.
    timeout = setup.get("pool_timeout", 10)
    options["pool"] = {**(pool if isinstance(pool, dict) else {}), "timeout": timeout}
    if "prepare" in setup:
        setup["prepare"]()
    override_settings(REDIS_URL=setup["redis"], **setup.get("override", {})).enable()
    seller()  # load it before the race begins
    ITEM_LOCK.lease = setup.get("lease", ITEM_LOCK.lease)
    shop = _Shop(pipe)
    pipe.send("ready")
    while True:
        try:
            command, arguments = pipe.recv()
        except EOFError:
            return
        method: Callable[..., Any] = getattr(shop, command)
        pipe.send(method(**arguments))
