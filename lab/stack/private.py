"""Throw-away folders for private servers and shops, deleted with all that runs in them."""

from __future__ import annotations

import fcntl
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from lab import environment
from lab.stack import leftovers
from lab.stack.folder import alone, exclusive, make_folder


@contextmanager
def private_folder() -> Iterator[Path]:
    """Yield a new folder; afterwards stop what still runs in it, and delete it.

    Folders whose owner was killed are cleared away on the way.
    """
    parent = _parent()
    with _alone_with(parent):
        _clear_abandoned(parent)
        folder = make_folder(Path(tempfile.mkdtemp(dir=parent)))
        owner = (folder / "owner.lock").open("a")
        fcntl.flock(owner, fcntl.LOCK_EX)
    with owner:
        try:
            yield folder
        finally:
            leftovers.stop(folder)
            # Not while others look for abandoned folders: half deleted, it would look like one.
            with _alone_with(parent):
                shutil.rmtree(folder)


def clear_abandoned() -> None:
    """Stop and delete what owners left behind that were killed."""
    parent = _parent()
    with _alone_with(parent):
        _clear_abandoned(parent)


def _alone_with(parent: Path) -> AbstractContextManager[None]:
    return exclusive(parent / "start.lock")


def _clear_abandoned(parent: Path) -> None:
    for folder in parent.iterdir():
        if not folder.is_dir():
            continue
        with alone(folder / "owner.lock") as abandoned:  # its owner's lock is free
            if abandoned:
                leftovers.stop(folder)
                shutil.rmtree(folder)


def _parent() -> Path:
    return make_folder(environment.data_folder() / "private")
