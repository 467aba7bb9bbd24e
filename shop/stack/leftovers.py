"""Finds and stops what a folder's supervisor started, also when the supervisor itself was killed.

Every process carries its folder in its environment, so it is recognised without remembered pids,
which may belong to somebody else by now.
"""

from __future__ import annotations

import signal
from pathlib import Path

import psutil

MARK = "SHOP_STACK_FOLDER"


def find(folder: Path) -> list[psutil.Process]:
    """Return the living processes that were started for `folder` or a folder below it."""
    found = []
    for process in psutil.process_iter():
        try:
            mark = process.environ().get(MARK)
            if (
                mark
                and Path(mark).is_relative_to(folder)
                and process.status() != psutil.STATUS_ZOMBIE
            ):
                found.append(process)
        except (psutil.Error, OSError):
            continue  # it has ended, or belongs to another user: not ours in either case
    return found


def wait(folder: Path, seconds: float) -> list[psutil.Process]:
    """Wait until no process of `folder` is left; return those that are, after `seconds`."""
    _, alive = psutil.wait_procs(find(folder), timeout=seconds)
    return list(alive)


def stop(folder: Path, seconds: float = 10) -> None:
    """Ask every process of `folder` to end, and kill after `seconds` those that do not."""
    processes = find(folder)
    for process in processes:
        # PostgreSQL's fast shutdown is SIGINT; at SIGTERM it waits for its clients to leave.
        _send(process, signal.SIGINT if _is_postgres(process) else signal.SIGTERM)
    _, alive = psutil.wait_procs(processes, timeout=seconds)
    for process in alive:
        _send(process, signal.SIGKILL)
    psutil.wait_procs(alive, timeout=seconds)


def _is_postgres(process: psutil.Process) -> bool:
    try:
        return bool(process.name() == "postgres")
    except psutil.Error:
        return False


def _send(process: psutil.Process, number: signal.Signals) -> None:
    try:
        process.send_signal(number)
    except psutil.NoSuchProcess:
        return
