"""Small or read-only file systems that only one command sees."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

MOUNT = 'mount -t tmpfs -o "$1" none "$2" && shift 2 && exec "$@"'

ENDED = ("timeout", "--signal", "INT", "--kill-after", "30", "45")
"""Ends a command that runs on although it should have been refused, with its children."""


def run_on(
    folder: Path, options: str, command: Sequence[str], variables: Mapping[str, str], cwd: Path
) -> subprocess.CompletedProcess[str]:
    """Run a command with a tmpfs mounted at a folder; skip the test if mounting is impossible.

    Args:
        folder: where to mount; must exist.
        options: of the mount, such as "size=20m" or "ro".
        command: the program and its arguments.
        variables: its environment.
        cwd: its working folder.
    """
    # Cleared of the settings of sudo and of the tests' servers.
    clean = ["env", "-i", *(f"{name}={value}" for name, value in variables.items())]
    mounted = ["unshare", "--mount", "sh", "-c", MOUNT, "sh", options, str(folder)]
    done = subprocess.run(
        [*_root(), *mounted, *_ourselves(), *clean, *ENDED, *command],
        cwd=cwd,
        capture_output=True,
        text=True,
        check=False,
        timeout=90,
    )
    if "unshare:" in done.stderr or "mount:" in done.stderr:
        pytest.skip(f"no file system can be mounted here: {done.stderr.strip()}")
    return done


def _root() -> list[str]:
    """Return the prefix for a command that needs root."""
    if os.geteuid() == 0:
        return []
    if shutil.which("sudo") and not subprocess.run(["sudo", "-n", "true"], check=False).returncode:
        return ["sudo", "-n"]
    pytest.skip("only root may mount a file system, and sudo asks for a password")


def _ourselves() -> list[str]:
    """Return the prefix that drops root's rights."""
    if os.geteuid() == 0:
        return []
    return ["setpriv", f"--reuid={os.geteuid()}", f"--regid={os.getegid()}", "--init-groups"]
