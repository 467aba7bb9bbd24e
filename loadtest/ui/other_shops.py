"""Other shops than the one at `--host`, for the start form: which there are, and running one."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from loadtest.address import RunImpossible
from loadtest.shops import OURS
from loadtest.shops.setup import installed

# Seconds to stop a shop.
_STOPPING = 60


def offered(folder: str) -> list[str]:
    """Return the choices of the start form, ours first; none without a folder of shops."""
    if not folder:
        return []
    return [OURS, *(name for name in installed(Path(folder)) if name != OURS)]


@contextmanager
def running(command: str, name: str, say: Callable[[str], None]) -> Iterator[str]:
    """Run a shop during the block; yield its address.

    Args:
        command: hosts the shop that is its last argument until its input ends. It prints JSON: a
            text for each step, then an object with `url` and the adapter's `environment`.
        name: of the shop.
        say: called with each step.

    Raises:
        RunImpossible: it does not start; says why.
    """
    before = dict(os.environ)
    with subprocess.Popen(
        [*shlex.split(command), name],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as host:
        try:
            yield _address(host, name, say)
        finally:
            os.environ.clear()
            os.environ.update(before)
            host.terminate()
            host.wait(_STOPPING)


def _address(host: subprocess.Popen[str], name: str, say: Callable[[str], None]) -> str:
    assert host.stdout is not None
    assert host.stderr is not None
    for line in host.stdout:
        said = json.loads(line)
        if isinstance(said, dict):
            os.environ.update(said["environment"])
            return str(said["url"])
        say(said)
    problem = host.stderr.read().strip() or "its host ended"
    raise RunImpossible(f"{name} does not start: {problem}")
