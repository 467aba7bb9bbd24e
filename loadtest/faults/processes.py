"""Processes found, killed and paused, by supervisor or by pid, and a free port for a new one."""

from __future__ import annotations

import os
import signal
import socket
import sys
from collections.abc import Iterable

import psutil

from loadtest.faults.fault import FaultFailed, wait_until


def require_linux() -> None:
    """Raise `FaultFailed` on other systems: the faults need Linux's signals and `/proc`."""
    if sys.platform != "linux":
        raise FaultFailed("faults can be injected on Linux only")


def program(supervisor: int, *words: str) -> psutil.Process:
    """Return the supervisor's child with these command-line words. Raises `FaultFailed`."""
    try:
        for child in psutil.Process(supervisor).children():
            if set(words) <= set(_command_line(child)):
                return child
    except psutil.Error as error:
        raise FaultFailed(f"the supervisor {supervisor} is gone") from error
    raise FaultFailed(f"{' '.join(words)} is not running")


def children(process: psutil.Process) -> list[psutil.Process]:
    """Return its live children, oldest first."""
    try:
        return [each for each in process.children() if lives(each)]
    except psutil.NoSuchProcess:
        return []


def lives(process: psutil.Process) -> bool:
    """Whether it is running; a zombie is not."""
    try:
        return bool(process.is_running() and process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def kill(processes: Iterable[psutil.Process]) -> list[int]:
    """Kill processes and wait for their end; return the pids of those that existed."""
    all_of_them = list(processes)
    pids = [each.pid for each in all_of_them if send(each.pid, signal.SIGKILL)]
    wait_until(f"{pids} end", lambda: not any(map(lives, all_of_them)), 10)
    return pids


def send(pid: int, number: signal.Signals) -> bool:
    """Send a signal; return whether the process existed."""
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


def free_port() -> int:
    """Return a port on which no server listens now."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return int(probe.getsockname()[1])
