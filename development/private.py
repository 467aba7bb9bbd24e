"""Temporary folders for private servers and shops, deleted with everything that runs in them."""

from __future__ import annotations

import fcntl
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from development import leftovers
from development.folder import alone, data_folder, exclusive, make_folder

LOCK = "start.lock"


@contextmanager
def private_folder() -> Iterator[Path]:
    """Yield a new folder; afterwards stop what still runs in it, and delete it.

    Also deletes folders whose owner was killed.
    """
    parent = _parent()
    with exclusive(parent / LOCK):
        _clear_abandoned(parent)
        folder = make_folder(Path(tempfile.mkdtemp(dir=parent)))
        owner = (folder / "owner.lock").open("a")
        fcntl.flock(owner, fcntl.LOCK_EX)
    with owner:
        try:
            yield folder
        finally:
            leftovers.stop(folder)
            # Locked against clean-ups of other processes, which would take it for abandoned.
            with exclusive(parent / LOCK):
                shutil.rmtree(folder)


def clear_abandoned() -> None:
    """Stop and delete what killed owners left behind."""
    parent = _parent()
    with exclusive(parent / LOCK):
        _clear_abandoned(parent)


def _clear_abandoned(parent: Path) -> None:
    for folder in parent.iterdir():
        if not folder.is_dir():
            continue
        with alone(folder / "owner.lock") as abandoned:  # the owner's lock is free
            if abandoned:
                leftovers.stop(folder)
                shutil.rmtree(folder)


def _parent() -> Path:
    return make_folder(data_folder() / "private")
