"""Faults inside the shop's processes: kills and pauses at failpoints, and bugs for controls.

Only a proof orders them, and only demo mode obeys."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from itertools import count
from pathlib import Path
from typing import Any

from inventory.hooks import hooks


@dataclass(frozen=True, slots=True)
class Sabotage:
    """A bug.

    Attributes:
        module, name: of the function or number.
        bug: makes the replacement.
    """

    module: str
    name: str
    bug: Callable[[Any], Any]


SHARE = 10
"""One of so many calls is hit, where not all are."""

STALE = 3.0
"""Seconds."""


def strangers_order(original: Callable[..., Any]) -> Callable[..., Any]:
    """Find an order without asking whose it is."""
    from shop.orders.models import Order

    def own_order(order: int, buyer: int) -> Any:
        found = Order.objects.filter(pk=order).first()
        return original(order, found.buyer_id if found is not None else buyer)

    return own_order


def busy_after_commit(original: Callable[..., Any]) -> Callable[..., Any]:
    """Say of some orders that the shop was too busy to open them."""
    from inventory.outcomes import Busy

    calls = count()

    def reserve_many(*arguments: Any, **named: Any) -> Any:
        answer = original(*arguments, **named)
        opened = isinstance(answer, list) and not answer[0].replayed
        if opened and next(calls) % SHARE == 0:
            raise Busy
        return answer

    return reserve_many


def stale_hint(original: Callable[..., Any]) -> Callable[..., Any]:
    """Look at a sold-out item only once in a while, and refuse by that in between."""
    kept: dict[int, Any] = {}

    def look(item: int) -> Any:
        seen = kept.get(item)
        if seen is None or seen.level.available or time.monotonic() >= seen.until:
            seen = original(item)
            if seen is not None:
                kept[item] = seen = seen._replace(until=seen.until + STALE)
        return seen

    return look


SABOTAGE: Mapping[str, Sabotage] = {
    "stranger": Sabotage("shop.api.views", "_own_order", strangers_order),
    "hint": Sabotage("inventory.selling.hint", "look", stale_hint),
    "busy": Sabotage("inventory.services", "reserve_many", busy_after_commit),
    "lease": Sabotage("lab.strategies.textbook", "LEASE", lambda seconds: 6 * seconds),
}


def commit(name: str) -> None:
    """Replace what a sabotage is about, in this process; no name: nothing.

    Raises:
        KeyError: there is no such sabotage.
    """
    if not name:
        return
    sabotage = SABOTAGE[name]
    module = import_module(sabotage.module)
    setattr(module, sabotage.name, sabotage.bug(getattr(module, sabotage.name)))


ORDERS = {"kill": signal.SIGKILL, "stop": signal.SIGSTOP}


class FailpointOrders:
    """Executes the orders found in a folder; a hook of `inventory.hooks`."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._name = f"{folder}/"

    def __call__(self, failpoint: str) -> None:
        """Execute the order for this failpoint, if there is one."""
        # A purchase of the demo comes by here as well: a third of the time of opening the file.
        if not os.path.exists(self._name + failpoint):  # noqa: PTH110
            return
        order_file = self._folder / failpoint
        try:
            order = order_file.read_text()
            # A rename succeeds for exactly one of several processes.
            order_file.rename(f"{order_file}.{os.getpid()}")
        except FileNotFoundError:
            return
        os.kill(os.getpid(), ORDERS[order])


def obey(folder: str) -> None:
    """Arm this process's failpoints with the orders of a folder; do nothing for an empty name."""
    if folder:
        hooks.failpoint = FailpointOrders(Path(folder))
