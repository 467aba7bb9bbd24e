"""What faults need: proxies before servers, a clock that a file steps, a disk that can fill up."""

from __future__ import annotations

import ctypes
import json
import os
import subprocess
import sys
from collections.abc import Collection, Iterator
from contextlib import ExitStack, contextmanager
from functools import cache
from pathlib import Path
from shutil import which
from typing import Any
from urllib.parse import urlsplit

from development import StackError
from development.embedded import ServerUrls
from development.folder import make_folder
from lab import environment
from loadtest.fault_needs import CLOCK, DATABASE_PROXY, FAILPOINTS, REDIS_PROXY


def breakable(
    folder: Path, servers: ServerUrls, needs: Collection[str], cleanup: ExitStack
) -> tuple[ServerUrls, dict[str, Any]]:
    """Set up what faults need before a shop is started.

    Args:
        folder: for files.
        servers: of the shop.
        needs: which of `loadtest.fault_needs`; the others are not set up.
        cleanup: ends the proxies.

    Returns:
        The servers' URLs for the shop, and the parts of a `Target`.
    """
    database, redis, broker = servers.database, servers.redis, servers.broker
    parts: dict[str, Any] = {}
    if DATABASE_PROXY in needs:
        port, parts["database_proxy"] = proxy(database, cleanup, "--postgres")
        database = by_way_of(database, port)
    if REDIS_PROXY in needs:
        port, parts["redis_proxy"] = proxy(redis, cleanup)
        redis, broker = by_way_of(redis, port), by_way_of(broker, port)
    if FAILPOINTS in needs:
        parts["failpoints"] = str(make_folder(folder / "failpoints"))
    if CLOCK in needs:
        clock = folder / "clock"
        clock.write_text("+0\n")
        parts["clock"] = str(clock)
    # The payment provider is another company: it has its own connection to its own database.
    return ServerUrls(database, redis, broker), parts


def proxy(url: str, cleanup: ExitStack, *options: str) -> tuple[int, int]:
    """Start one before a server: its port and its control port. It ends with this process."""
    process = subprocess.Popen(
        [
            sys.executable,
            "-m",
            "loadtest.faults.proxy",
            "--to",
            str(urlsplit(url).port),
            *options,
        ],
        cwd=environment.PROJECT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    cleanup.callback(process.wait)
    cleanup.callback(process.stdout.close)
    cleanup.callback(process.stdin.close)
    line = process.stdout.readline()
    if not line:
        raise StackError("A proxy for the faults did not come up.")
    ports = json.loads(line)
    return ports["port"], ports["control"]


def by_way_of(url: str, port: int) -> str:
    """The URL of a server, through a proxy before it."""
    parts = urlsplit(url)
    before, _, _ = parts.netloc.rpartition(":")
    return parts._replace(netloc=f"{before}:{port}").geturl()


LIBRARIES = ("lib/*/faketime/libfaketimeMT.so.1", "lib/faketime/libfaketimeMT.so.1")
"""Next to the folder of the program: of Debian's package, and of `make install`."""


@cache
def libfaketime() -> Path | None:
    """The library that steps a process's clock; None where `faketime` is not on the PATH."""
    program = which("faketime")
    if program is None:
        return None
    prefix = Path(program).resolve().parent.parent
    return next((path for library in LIBRARIES for path in prefix.glob(library)), None)


def under_clock(clock: Path) -> dict[str, str]:
    """The environment of a process whose clock is the system's plus what the file says."""
    return {
        "LD_PRELOAD": str(libfaketime()),
        "PYTHONPATH": str(Path(__file__).parent / "faketime"),
        "FAKETIME_TIMESTAMP_FILE": str(clock),
        # Read again every second; at each call would slow every call down.
        "FAKETIME_CACHE_DURATION": "1",
        # Only the clock that can be set is stepped. The monotonic clock never jumps.
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        "DONT_FAKE_MONOTONIC": "1",
    }


CLONE_NEWNS = 0x00020000
MS_REC, MS_PRIVATE = 0x4000, 0x40000
MNT_DETACH = 2

SIZE = "1g"
"""Room for a proof's tables and WAL; filling it takes this much memory for some seconds."""


@contextmanager
def small_disk(folder: Path) -> Iterator[Path | None]:
    """Mount it at a folder, for this process and its future children; unmount it afterwards.

    Yields:
        The folder; None if it could not be mounted.
    """
    if not _mount(folder):
        yield None
        return
    try:
        yield folder
    finally:
        ctypes.CDLL(None).umount2(bytes(folder), MNT_DETACH)


def _mount(folder: Path) -> bool:
    if sys.platform != "linux" or os.geteuid() != 0:
        return False
    libc = ctypes.CDLL(None, use_errno=True)
    return bool(
        libc.unshare(CLONE_NEWNS) == 0
        # Mounts in here must not propagate outside.
        and libc.mount(b"none", b"/", None, MS_REC | MS_PRIVATE, None) == 0
        and libc.mount(b"tmpfs", bytes(folder), b"tmpfs", 0, f"size={SIZE},mode=711".encode()) == 0
    )
