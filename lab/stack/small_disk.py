"""A small file system for the database, which a fault can fill up without filling other disks.

A tmpfs in a mount namespace of this process and its children: other processes do not see it, and it
vanishes with the last of them. It needs Linux and root; otherwise the fault is omitted.
"""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

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
