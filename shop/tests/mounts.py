"""File systems of a test's own: small ones and read-only ones, seen by one command only."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

MOUNT = 'mount -t tmpfs -o "$1" none "$2" && shift 2 && exec "$@"'

ENDED = ("timeout", "--signal", "INT", "--kill-after", "30", "45")
"""What should have been refused and runs on is ended, with all that it started."""


def run_on(
    folder: Path, options: str, command: Sequence[str], variables: Mapping[str, str], cwd: Path
) -> subprocess.CompletedProcess[str]:
    """Run a command for which a tmpfs is mounted at a folder; skip the test where none may be.

    Args:
        folder: where to mount; must exist.
        options: of the mount, such as "size=20m" or "ro".
        command: the program and its arguments.
        variables: its environment.
        cwd: its working folder.
    """
    # Cleared, for sudo and the tests' own servers have settings that are not meant.
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
    """Return what to put before a command that only root may run."""
    if os.geteuid() == 0:
        return []
    if shutil.which("sudo") and not subprocess.run(["sudo", "-n", "true"], check=False).returncode:
        return ["sudo", "-n"]
    pytest.skip("only root may mount a file system, and sudo asks for a password")


def _ourselves() -> list[str]:
    """Return what gives root's rights up again."""
    if os.geteuid() == 0:
        return []
    return ["setpriv", f"--reuid={os.geteuid()}", f"--regid={os.getegid()}", "--init-groups"]
