"""The counters of all web processes together, for the demo's figures.

Each process writes its own into a small file once a second; `read` adds them up. Containers on one
machine share the folder (docker-compose.yml mounts a volume). Files cost a purchase nothing, and
they are readable while Redis and the database are away. Counters of processes that have died stay
in the sum.
"""

from __future__ import annotations

import json
import os
import socket
import threading
import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lab import environment
from lab.stack.folder import make_folder, write_private

EVERY = 1.0
"""Seconds between two writings."""

ALIVE = 5.0
"""Seconds since its last writing after which a process counts as gone."""


FORGOTTEN = 24 * 3600.0
"""Seconds since its last writing after which another machine's or container's file is deleted."""


@dataclass(slots=True)
class Meters:
    """What all processes counted since the shop was started.

    Attributes:
        counters: sums by name, see the callers of ``inventory.metrics``.
        processes: that are alive.
        degraded: at least one of them sells without Redis.
    """

    counters: Counter[str] = field(default_factory=Counter)
    processes: int = 0
    degraded: bool = False


def folder() -> Path:
    """Return the folder to which the processes of the shop on a port write."""
    return environment.data_folder() / "meters" / environment.text("SHOP_PORT")


def forget() -> None:
    """Remove the counters of an earlier shop on this port, before its processes start.

    Other containers may share the folder: their files stay for a day.
    """
    own, now = f"{socket.gethostname()}.", time.time()
    for path in folder().glob("*"):
        with suppress(FileNotFoundError):
            if path.name.startswith(own) or now - path.stat().st_mtime > FORGOTTEN:
                path.unlink()


def publish() -> None:
    """Keep this process's counters on disk from now on."""
    make_folder(folder().parent)
    # Process numbers repeat from container to container; a container's host name does not.
    path = make_folder(folder()) / f"{socket.gethostname()}.{os.getpid()}.json"
    threading.Thread(target=_write_for_ever, args=[path], daemon=True).start()


def read() -> Meters:
    """The counters of all processes; only this process's if none are published."""
    meters, now = Meters(), time.time()
    for path in folder().glob("*.json"):
        try:
            values, written = json.loads(path.read_bytes()), path.stat().st_mtime
        except FileNotFoundError:
            continue
        meters.counters.update(values["counters"])
        if now - written < ALIVE:
            meters.processes += 1
            meters.degraded |= values["degraded"]
    if not meters.processes:
        own = _own()
        return Meters(Counter(own["counters"]), 1, own["degraded"])
    return meters


def _own() -> dict[str, Any]:
    # Not above: gunicorn's master calls `forget`, and must not load a client of Redis that its
    # workers then have without gevent's patches.
    from inventory.metrics import metrics
    from inventory.redis import circuit

    return {"counters": metrics.read(), "degraded": circuit().open}


def _write_for_ever(path: Path) -> None:
    while True:
        write_private(path, json.dumps(_own()))
        time.sleep(EVERY)
