"""Finding, killing and pausing processes, by the supervisor they belong to or by their pid."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterable

import psutil

from loadtest.faults.fault import FaultFailed, wait_until


def require_linux() -> None:
    """Raises `FaultFailed` on other systems: the faults rest on its signals and `/proc`."""
    if sys.platform != "linux":
        raise FaultFailed("faults can be injected on Linux only")


def program(supervisor: int, *words: str) -> psutil.Process:
    """The child of a supervisor whose command line has all the words. Raises `FaultFailed`."""
    try:
        for child in psutil.Process(supervisor).children():
            if set(words) <= set(_command_line(child)):
                return child
    except psutil.Error as error:
        raise FaultFailed(f"the supervisor {supervisor} is gone") from error
    raise FaultFailed(f"no {' '.join(words)} runs now")


def children(process: psutil.Process) -> list[psutil.Process]:
    """Its living children, the oldest first."""
    try:
        return [each for each in process.children() if lives(each)]
    except psutil.NoSuchProcess:
        return []


def lives(process: psutil.Process) -> bool:
    """Whether it runs; a zombie does not."""
    try:
        return bool(process.is_running() and process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def kill(processes: Iterable[psutil.Process]) -> list[int]:
    """Kill them and return when they are gone; the pids of those that were there."""
    all_of_them = list(processes)
    pids = [each.pid for each in all_of_them if send(each.pid, signal.SIGKILL)]
    wait_until(f"{pids} end", lambda: not any(map(lives, all_of_them)), 10)
    return pids


def send(pid: int, number: signal.Signals) -> bool:
    """Send a signal; whether there was somebody to receive it."""
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return False
    return True


def is_stopped(pid: int) -> bool:
    """Whether it is paused."""
    try:
        return bool(psutil.Process(pid).status() == psutil.STATUS_STOPPED)
    except psutil.NoSuchProcess:
        return False


def _command_line(process: psutil.Process) -> list[str]:
    try:
        return list(process.cmdline())
    except psutil.Error:
        return []
