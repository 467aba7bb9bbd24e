"""The metrics of all processes, as one small file per process in a shared folder.

Each process writes its own four times a second; the exporter and the demo read all of them.
Containers on one machine share the folder (docker-compose.yml mounts a volume). Files cost a
purchase nothing, and they are readable while Redis, the database and the web processes are away.
"""

from __future__ import annotations

import json
import os
import socket
import threading
import time
import zlib
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from inventory.metrics import metrics
from shop import environment

EVERY = 0.25
"""Seconds between two writings, each of some 50 microseconds. A sale may be over in two
seconds: with fewer, its rates would be one or two points."""

READINGS = 20
"""Attempts to read a file while its process writes it, which takes some microseconds."""

ALIVE = 5.0
"""Seconds since its last writing after which a process counts as gone."""

FORGOTTEN = 24 * 3600.0
"""Seconds since its last writing after which another machine's or container's file is deleted."""


@dataclass(frozen=True, slots=True)
class Written:
    """What a process wrote last.

    Attributes:
        process: host name and process id.
        alive: it has written within the last seconds.
        started: when it began to write, in seconds since the epoch by this machine's clock.
        snapshot: see `inventory.metrics.Metrics.snapshot`.
    """

    process: str
    alive: bool
    started: float
    snapshot: dict[str, Any]


def folder() -> Path | None:
    """Return the folder that the processes write to; None if they write nothing."""
    path = environment.text("METRICS_FOLDER")
    return Path(path) if path else None


def forget() -> None:
    """Remove this host's files and very old ones, before its web processes start.

    Other containers may share the folder: their files stay for a day.
    """
    own, now = f"{socket.gethostname()}.", time.time()
    for path in _files("*"):
        with suppress(FileNotFoundError):
            if path.name.startswith(own) or now - path.stat().st_mtime > FORGOTTEN:
                path.unlink()


def publish(kind: str) -> None:
    """Keep this process's metrics on disk from now on, if there is a folder for them.

    Args:
        kind: `web` or `celery`.
    """
    if (shared := folder()) is None:
        return
    shared.mkdir(mode=0o755, parents=True, exist_ok=True)
    # Process numbers repeat from container to container; a container's host name does not.
    path = shared / f"{socket.gethostname()}.{os.getpid()}.{kind}.json"
    threading.Thread(target=_write_forever, args=[path], name="metrics", daemon=True).start()


def written() -> Iterator[Written]:
    """Return what each process wrote last."""
    now = time.time()
    for path in _files("*.json"):
        with suppress(FileNotFoundError):
            wrote = path.stat().st_mtime
            snapshot = _read(path)
            started = wrote - snapshot.get("uptime", 0.0)
            yield Written(path.stem, now - wrote < ALIVE, started, snapshot)


def _files(pattern: str) -> list[Path]:
    shared = folder()
    return sorted(shared.glob(pattern)) if shared else []


def _own() -> dict[str, Any]:
    # Not above: gunicorn's master calls `forget`, and must not load a client of Redis that its
    # workers then have without gevent's patches.
    from inventory import redis  # noqa: F401  # adds its gauge

    return metrics.snapshot()


def framed(snapshot: dict[str, Any]) -> bytes:
    """Return a file's content: a line of JSON, and its checksum."""
    text = json.dumps(snapshot).encode()
    return b"%s\n%08x\n" % (text, zlib.crc32(text))


def _read(path: Path) -> dict[str, Any]:
    """Read a file that may be written meanwhile.

    Raises:
        FileNotFoundError: it is gone, or was left half written.
    """
    for _ in range(READINGS):
        text, _, rest = path.read_bytes().partition(b"\n")
        if rest[:8] == b"%08x" % zlib.crc32(text):
            snapshot: dict[str, Any] = json.loads(text)
            return snapshot
        time.sleep(0.001)
    raise FileNotFoundError(path)


def _write_forever(path: Path) -> None:
    began = time.monotonic()
    while True:
        text = framed({**_own(), "uptime": time.monotonic() - began})
        # In place: ext4 writes a file to the disk before it lets it replace another, which took
        # 6 ms with a busy database. What follows the checksum is older, and ignored. Opened each
        # time, since web processes that start remove the files of their host.
        with suppress(OSError):  # the folder is full or gone for a moment
            file = os.open(path, os.O_WRONLY | os.O_CREAT, 0o644)
            try:
                os.write(file, text)
            finally:
                os.close(file)
        time.sleep(EVERY)
