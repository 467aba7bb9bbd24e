"""Small or read-only file systems that only one command sees."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

from development.needs import Need, find, require

MOUNT = 'mount -t tmpfs -o "$1" none "$2" && shift 2 && exec "$@"'

ENDED = ("timeout", "--signal", "INT", "--kill-after", "30", "45")
"""Ends a command that runs on although it should have been refused, with its children."""


def run_on(
    folder: Path, options: str, command: Sequence[str], variables: Mapping[str, str], cwd: Path
) -> subprocess.CompletedProcess[str]:
    """Run a command with a tmpfs mounted at a folder.

    Args:
        folder: where to mount; must exist.
        options: of the mount, such as "size=20m" or "ro".
        command: the program and its arguments.
        variables: its environment.
        cwd: its working folder.
    """
    require(MOUNTS)
    # Cleared of the settings of sudo and of the tests' servers.
    clean = ["env", "-i", *(f"{name}={value}" for name, value in variables.items())]
    mounted = ["unshare", "--mount", "sh", "-c", MOUNT, "sh", options, str(folder)]
    return subprocess.run(
        [*_root(), *mounted, *_ourselves(), *clean, *ENDED, *command],
        cwd=cwd,
        capture_output=True,
        text=True,
        check=False,
        timeout=90,
    )


@cache
def _can_mount() -> bool:
    """Try it: a container may refuse it to root, and sudo may ask for a password."""
    programs = ["unshare", "mount", *(["sudo", "setpriv"] if os.geteuid() else [])]
    if not all(map(find, programs)):
        return False
    mounted = ["unshare", "--mount", "sh", "-c", MOUNT, "sh", "ro", "/tmp", "true"]
    return not subprocess.run([*_root(), *mounted], capture_output=True, check=False).returncode


MOUNTS = Need(
    "a file system of its own",
    "Linux, the right to mount (root, or sudo without a password), apt-get install util-linux",
    _can_mount,
)


def _root() -> list[str]:
    """Return the prefix for a command that needs root."""
    if os.geteuid() == 0:
        return []
    return ["sudo", "-n"]


def _ourselves() -> list[str]:
    """Return the prefix that drops root's rights."""
    if os.geteuid() == 0:
        return []
    return ["setpriv", f"--reuid={os.geteuid()}", f"--regid={os.getegid()}", "--init-groups"]
