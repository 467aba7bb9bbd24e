"""Find and stop what a folder's supervisor started, even if the supervisor was killed; private
folders, which are deleted with everything that runs in them.

Every process carries its folder in its environment, so it is recognised without stored pids, which
other processes may have by now.
"""

from __future__ import annotations

import fcntl
import shutil
import signal
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil

from development import StackError
from development.folder import alone, data_folder, exclusive, make_folder

MARK = "SHOP_STACK_FOLDER"
POLL = 0.05  # seconds between polls
AGAIN = 2.0  # seconds until a process is signalled again
PATIENCE = 10.0  # seconds until it is killed


def find(folder: Path) -> list[psutil.Process]:
    """Return the live processes that were started for `folder` or a folder below it."""
    found = []
    for process in psutil.process_iter():
        with suppress(psutil.Error, OSError):  # it has ended or belongs to another user: not ours
            mark = process.environ().get(MARK)
            if mark and Path(mark).is_relative_to(folder) and _lives(process):
                found.append(process)
    return found


def wait(folder: Path, seconds: float) -> None:
    """Wait until no process of `folder` is left or `seconds` have passed."""
    _wait(find(folder), seconds)


def stop(folder: Path) -> None:
    """Ask every process of `folder` to end; kill the rest after `PATIENCE`.

    Repeats until none is left: a starting supervisor forks new processes, and a process that is
    just being forked does not get its first signal.
    """
    start = time.monotonic()
    while processes := find(folder):
        waited = time.monotonic() - start
        if waited > 2 * PATIENCE:
            raise StackError(f"These processes cannot be killed: {processes}")
        for process in processes:
            with suppress(psutil.NoSuchProcess):
                process.send_signal(signal.SIGKILL if waited > PATIENCE else _request(process))
        _wait(processes, AGAIN)


def _wait(processes: list[psutil.Process], seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while any(map(_lives, processes)) and time.monotonic() < deadline:
        time.sleep(POLL)


def _lives(process: psutil.Process) -> bool:
    # A zombie has ended. It stays where process 1 reaps no orphans, as in a container without an
    # init.
    try:
        return bool(process.is_running() and process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def _request(process: psutil.Process) -> signal.Signals:
    # SIGINT is PostgreSQL's fast shutdown; on SIGTERM it waits for its clients to disconnect.
    return signal.SIGINT if process.name() == "postgres" else signal.SIGTERM


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
            stop(folder)
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
                stop(folder)
                shutil.rmtree(folder)


def _parent() -> Path:
    return make_folder(data_folder() / "private")
