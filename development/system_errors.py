"""Errors of the user's system, reported in one line instead of a traceback.

A full disk or a read-only folder is not a bug: the message says which one and what to do.
"""

from __future__ import annotations

import errno
import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
from django.core.exceptions import ImproperlyConfigured
from django.db import DatabaseError

from development import StackError
from development.folder import data_folder

ROOM_FOR_NEW = 256 * 2**20
"""Bytes: a new database, its WAL while it is filled, and the processes' logs."""

ROOM_TO_START = 32 * 2**20
"""Bytes: two WAL segments, of which PostgreSQL may need a new one at any commit."""

ELSEWHERE = "or keep the data on another disk: SHOP_DATA=/some/folder."

FULL = {errno.ENOSPC, errno.EDQUOT}
FORBIDDEN = {errno.EACCES, errno.EPERM, errno.EROFS}
NO_FOLDER = {errno.ENOTDIR, errno.EEXIST, errno.ENAMETOOLONG}


def refuse_unusable(folder: Path, *, room: int = ROOM_TO_START) -> None:
    """Refuse an unusable data folder before anything is written to it.

    Args:
        folder: exists or can be created.
        room: bytes that must be free.

    Raises:
        StackError: it is not writable, or the disk has too little room.
    """
    nearest = next(path for path in (folder, *folder.parents) if path.exists())
    if not nearest.is_dir():
        raise StackError(f"{nearest} is not a folder. Name another one: SHOP_DATA=/some/folder.")
    if not os.access(nearest, os.W_OK | os.X_OK):
        raise StackError(_forbidden(nearest))
    free = shutil.disk_usage(nearest).free
    if free < room:
        raise StackError(
            f"The disk of {nearest} has {free >> 20} MB left, and {room >> 20} MB are needed. "
            f"Free some space, {ELSEWHERE}"
        )


def disk_full(folder: Path) -> str:
    """Return the message about the full disk of `folder`."""
    return f"The disk of {folder} is full. Free some space, {ELSEWHERE}"


@contextmanager
def told_in_one_line() -> Iterator[None]:
    """End the program with one line and exit code 1 if its system caused the error.

    Other errors, and all errors with `--traceback`, pass unchanged.
    """
    try:
        yield
    except (OSError, DatabaseError, StackError, ImproperlyConfigured) as error:
        explanation = explain(error)
        if explanation is None or "--traceback" in sys.argv:
            raise
        sys.exit(f"error: {explanation}")


def explain(error: Exception) -> str | None:
    """Return what happened and what to do if the system or the user caused `error`; else None."""
    if isinstance(error, OSError):
        return _explain_file(error)
    if _is_full(error):
        return disk_full(data_folder())
    return str(error) if isinstance(error, StackError | ImproperlyConfigured) else None


def _explain_file(error: OSError) -> str | None:
    if error.errno in FULL:
        return disk_full(Path(error.filename or data_folder()))
    if error.filename and error.errno in FORBIDDEN:
        return _forbidden(Path(os.fsdecode(error.filename)))
    if error.filename and error.errno in NO_FOLDER:
        return (
            f"{os.fsdecode(error.filename)} cannot be created ({error.strerror}). "
            "Name another folder: SHOP_DATA=/some/folder."
        )
    return None


def _forbidden(path: Path) -> str:
    why = "it belongs to another user or is read-only"
    return f"{path} is not writable: {why}. Make it writable, {ELSEWHERE}"


def _is_full(error: Exception) -> bool:
    """Whether the cause is a full disk, which PostgreSQL reports, or dies of without a message."""
    if isinstance(error.__cause__, psycopg.errors.DiskFull):
        return True
    folder = data_folder()
    uses_disk = isinstance(error, StackError | DatabaseError) and folder.exists()
    return uses_disk and shutil.disk_usage(folder).free < 2**20
