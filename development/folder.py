"""The data folder: private files, persistent secrets, locks between processes."""

from __future__ import annotations

import fcntl
import os
import secrets
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from development import StackError
from development.environment import PROJECT, text
from development.files import write_private


def data_folder() -> Path:
    """Return the absolute path of the data folder."""
    return (PROJECT / Path(text("SHOP_DATA")).expanduser()).resolve()


def private_temporary(name: str) -> Path:
    """Return the folder `name` of this user among the system's temporary ones, for short paths.

    Raises:
        StackError: it belongs to another user.
    """
    folder = Path(tempfile.gettempdir()) / f"shop-{os.getuid()}-{name}"
    folder.mkdir(mode=0o700, exist_ok=True)
    if folder.is_symlink() or folder.stat().st_uid != os.getuid():
        raise StackError(f"{folder} belongs to another user.")
    return folder


def make_folder(path: Path) -> Path:
    """Create `path`, which only this user may list; others may traverse it.

    PostgreSQL's system user must traverse it when the shop runs as root.
    """
    path.mkdir(parents=True, exist_ok=True)
    path.chmod(0o711)
    return path


def kept_secret(name: str, folder: Path | None = None) -> str:
    """Return the random secret `name`, created on first use and kept in the data folder."""
    path = make_folder(folder or data_folder()) / name
    if not path.exists():
        candidate = path.with_name(f"{name}.{os.getpid()}.{secrets.token_hex(4)}")
        write_private(candidate, secrets.token_urlsafe(48))
        try:
            path.hardlink_to(candidate)
        except FileExistsError:
            pass  # another process was first: use its secret
        finally:
            candidate.unlink()
    return path.read_text(encoding="utf-8")


def secret(variable: str) -> str:
    """Return the secret that a variable of the environment gives; if none, one that is kept."""
    return text(variable) or kept_secret(variable.lower().replace("_", "-"))


def provider_address() -> str:
    """Return the address of the fake payment provider that runs with this data; empty if none."""
    try:
        return _address_file().read_text(encoding="utf-8")
    except FileNotFoundError:
        return ""


@contextmanager
def provider_announced(address: str) -> Iterator[None]:
    """Tell other commands with this data, such as `manage.py audit`, the address of the fake
    payment provider.
    """
    write_private(_address_file(), address)
    try:
        yield
    finally:
        _address_file().unlink(missing_ok=True)


def _address_file() -> Path:
    return make_folder(data_folder()) / "psp-url"


@contextmanager
def exclusive(path: Path) -> Iterator[None]:
    """Hold the lock file `path` exclusively. The kernel frees it when the process dies."""
    with path.open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


@contextmanager
def alone(path: Path) -> Iterator[bool]:
    """Hold the lock file `path` exclusively if it is free; yield whether it was."""
    with path.open("a") as file:
        yield taken(file)


def taken(file: IO[str] | int) -> bool:
    """Try to lock the open `file` exclusively, without waiting; upgrades a shared lock."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
