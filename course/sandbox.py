"""A place for code of others: a process of its own that reaches nobody and writes nothing.

`confine(work)` runs a function in a child process and returns what it wrote. Where the kernel
allows it (Linux with user namespaces), the child is in namespaces of its own: no network, every
file system read-only, and no other process that it could see or signal. It has no capabilities,
and a user that owns nothing if this process is root's. Everywhere, it has bounds: it opens nothing,
starts nothing, writes no file, and its memory and its processor time end.

Without namespaces the bounds are all there is: what they leave open, such as deleting a file of
this user, is then open. `Outcome.isolated` says which of both it was.
"""

from __future__ import annotations

import ctypes
import os
import resource
import select
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

NOBODY = 65534

CLONE_NEWNS, CLONE_NEWIPC, CLONE_NEWUSER = 0x00020000, 0x08000000, 0x10000000
CLONE_NEWPID, CLONE_NEWNET = 0x20000000, 0x40000000
NAMESPACES = CLONE_NEWNS | CLONE_NEWIPC | CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNET

MS_REC, MS_PRIVATE = 0x4000, 0x40000
AT_FDCWD, AT_RECURSIVE, MOUNT_ATTR_RDONLY = -100, 0x8000, 0x1
SYS_MOUNT_SETATTR = 442
"""The same number on all architectures; since Linux 5.12."""

PR_SET_PDEATHSIG, PR_SET_DUMPABLE, PR_SET_NO_NEW_PRIVS = 1, 4, 38
CAPABILITIES_VERSION = 0x20080522

SIGNALLED = 128
"""What is added to a signal's number in the exit code of the process between."""

MOST = 1 << 22
"""Bytes that are taken of what the child writes."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """How the child ended.

    Attributes:
        written: what it wrote to its pipe.
        code: its exit code; the negative number of the signal that ended it.
        isolated: whether it had namespaces of its own.
    """

    written: bytes
    code: int
    isolated: bool


def confine(work: Callable[[int], None], *, memory: int, seconds: int) -> Outcome:
    """Run a function in a confined child process.

    It must have loaded before whatever it imports: it can open nothing any more. This process must
    have one thread, and is itself moved into the namespaces: it should end soon afterwards.

    Args:
        work: called in the child with the file descriptor of its pipe.
        memory: bytes of address space.
        seconds: of processor time.

    Raises:
        OSError: no process could be started.
    """
    isolated = _enter_namespaces()
    reads, writes = os.pipe()
    child = os.fork()
    if not child:
        os.close(reads)
        _live_confined(work, writes, memory, seconds, isolated=isolated)
    os.close(writes)
    with os.fdopen(reads, "rb") as pipe:
        written = pipe.read(MOST)
    _, status = os.waitpid(child, 0)
    code = os.waitstatus_to_exitcode(status)
    return Outcome(written, SIGNALLED - code if code > SIGNALLED else code, isolated)


def _live_confined(
    work: Callable[[int], None], pipe: int, memory: int, seconds: int, *, isolated: bool
) -> NoReturn:
    """Run the function and end, in a process whose parent is outside."""
    code = 1
    try:
        # Own session and group: a signal to the group must not reach the process that started it.
        os.setsid()
        _die_with_parent(pipe)
        nothing = os.open(os.devnull, os.O_RDWR)
        for descriptor in (0, 1, 2):
            os.dup2(nothing, descriptor)
        # The first process of a namespace ignores the signals of its own timers, so it only waits.
        # With it the kernel ends all others of the namespace.
        worker = os.fork() if isolated else 0
        if worker:
            os.close(pipe)
            _, status = os.waitpid(worker, 0)
            code = os.waitstatus_to_exitcode(status)
            code = SIGNALLED - code if code < 0 else code
        else:
            _bound(memory, seconds, isolated=isolated)
            work(pipe)
            code = 0
    finally:
        os._exit(code)


def _enter_namespaces() -> bool:
    """Leave root's rights, and move into own namespaces; return whether that was possible."""
    if not sys.platform.startswith("linux"):
        return False
    libc = ctypes.CDLL(None, use_errno=True)
    if os.geteuid() == 0:
        os.setgroups([])
        os.setresgid(NOBODY, NOBODY, NOBODY)
        os.setresuid(NOBODY, NOBODY, NOBODY)
        # Otherwise the files below /proc/self still belong to root.
        libc.prctl(PR_SET_DUMPABLE, 1, 0, 0, 0)
    user, group = os.geteuid(), os.getegid()
    if libc.unshare(NAMESPACES) != 0:
        return False
    try:
        Path("/proc/self/setgroups").write_text("deny")
        Path("/proc/self/uid_map").write_text(f"{user} {user} 1")
        Path("/proc/self/gid_map").write_text(f"{group} {group} 1")
    except OSError:
        return False
    return _make_read_only(libc)


def _make_read_only(libc: ctypes.CDLL) -> bool:
    # First private, so that nothing of it comes back to the system's own mounts.
    if libc.mount(b"none", b"/", None, ctypes.c_ulong(MS_REC | MS_PRIVATE), None) != 0:
        return False
    attributes = (ctypes.c_uint64 * 4)(MOUNT_ATTR_RDONLY, 0, 0, 0)
    done = libc.syscall(
        ctypes.c_long(SYS_MOUNT_SETATTR),
        ctypes.c_int(AT_FDCWD),
        ctypes.c_char_p(b"/"),
        ctypes.c_uint(AT_RECURSIVE),
        ctypes.byref(attributes),
        ctypes.c_size_t(ctypes.sizeof(attributes)),
    )
    return bool(done == 0)


def _die_with_parent(pipe: int) -> None:
    """End this process with its parent, which alone reads the pipe."""
    if sys.platform.startswith("linux"):
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)
    parent = select.poll()
    parent.register(pipe, 0)
    if parent.poll(0):  # it ended before the line above, of which nobody tells
        os._exit(1)


def _bound(memory: int, seconds: int, *, isolated: bool) -> None:
    """Bound this process for the rest of its life."""
    if sys.platform.startswith("linux"):
        libc = ctypes.CDLL(None, use_errno=True)
        libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
        if isolated:
            header = (ctypes.c_uint32 * 2)(CAPABILITIES_VERSION, 0)
            nothing = (ctypes.c_uint32 * 6)()
            if libc.capset(header, nothing) != 0:
                raise OSError(ctypes.get_errno(), "the capabilities could not be dropped")
    # A system that cannot bound the one bounds the other.
    for limit, most in (
        (resource.RLIMIT_AS, memory),
        (resource.RLIMIT_CPU, seconds),
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_FSIZE, 0),
        (resource.RLIMIT_NPROC, 0),
        (resource.RLIMIT_NOFILE, 0),
    ):
        with suppress(ValueError, OSError):
            resource.setrlimit(limit, (most, most))
