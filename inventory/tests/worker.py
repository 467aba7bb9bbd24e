"""A second shop process, controlled line by line: `python -m inventory.tests.worker`.

It reads one JSON object per line and answers each with one. A command may name a point at which to
stop: the process reports that point and waits there, to be killed or told to go on by a line.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Sequence
from typing import Any
from unittest import mock
from uuid import UUID


def say(**message: Any) -> None:
    """Write an answer."""
    print(json.dumps(message), flush=True)


def hear() -> dict[str, Any]:
    """Read a command; empty at the end of the input."""
    document: dict[str, Any] = json.loads(sys.stdin.readline() or "{}")
    return document


def stand_still(at: str) -> None:
    """Report the point and wait for a line."""
    say(at=at)
    hear()


def sell(command: dict[str, Any]) -> None:
    """Sell the purchases of a command; answer in any order."""
    from inventory import services
    from inventory.selling import batch
    from inventory.tests.helpers import crowd, new_purchase, open_nothing

    stop = command.get("stop")

    def on_granted(granted: Sequence[Any]) -> list[str]:
        if stop == "before_commit":
            stand_still(stop)
        return open_nothing(granted)

    real = batch.sell

    def sell_and_stop(*arguments: Any) -> Any:
        sold = real(*arguments)
        if stop == "after_commit":
            stand_still(stop)
        return sold

    def reserve(purchase: Any) -> Any:
        return services.reserve(purchase, on_granted, by=command["by"])

    purchases = [new_purchase(key=UUID(key), **more) for key, more in command["purchases"]]
    with mock.patch.object(batch, "sell", sell_and_stop):
        answers = crowd(reserve, purchases, command["threads"])
    say(answers=[[type(answer).__name__, repr(answer)] for answer in answers])


def count(command: dict[str, Any]) -> None:
    """Answer with the counters of this process."""
    from inventory.metrics import metrics

    say(metrics=metrics.read())


def deliver(command: dict[str, Any]) -> None:
    """Deliver the outbox; each message's effect is another message."""
    from inventory import outbox

    def handle(payload: Any) -> None:
        outbox.emit("effect", payload)
        if command.get("stop") == "before_commit":
            stand_still("before_commit")

    say(done=outbox.deliver({"cause": handle}))


COMMANDS: dict[str, Callable[[dict[str, Any]], None]] = {
    "sell": sell,
    "metrics": count,
    "deliver": deliver,
}


def main() -> None:
    """Set up, then execute commands."""
    setup = json.loads(sys.argv[1])
    os.environ["DJANGO_SETTINGS_MODULE"] = setup["settings"]
    import django
    from django.conf import settings

    database = settings.DATABASES["default"]
    database["NAME"] = setup["database"]
    database["PORT"] = setup.get("port") or database.get("PORT", "")
    options = database.setdefault("OPTIONS", {})
    pool = options.get("pool")
    # Seconds that a purchase waits for an unreachable database.
    timeout = setup.get("pool_timeout", 10)
    options["pool"] = {**(pool if isinstance(pool, dict) else {}), "timeout": timeout}
    settings.REDIS_URL = setup["redis"]
    for name, value in setup.get("override", {}).items():
        setattr(settings, name, value)
    django.setup()
    if "lease" in setup:
        from inventory.degradable_lock import ITEM_LOCK

        ITEM_LOCK.lease = setup["lease"]
    from inventory.selling.strategies import strategy

    strategy("combining")  # load it before the race begins
    say(ready=os.getpid())
    while command := hear():
        COMMANDS[command["do"]](command)


if __name__ == "__main__":
    main()
