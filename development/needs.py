"""What some tests need and not every machine has: servers, a browser, rights.

Each `Need` has one reason, which says how to get what is missing. A test has the mark `needs(...)`,
or its fixture calls `require(...)`; where something is missing the test is skipped for that reason.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pytest


def find(program: str) -> str | None:
    """Return the path of a program, also where only root's PATH has its folder.

    Debian keeps daemons in `sbin`, next to the `bin` of every user's PATH.
    """
    folders = [Path(folder) for folder in os.environ.get("PATH", os.defpath).split(os.pathsep)]
    daemons = [folder.with_name("sbin") for folder in folders if folder.name == "bin"]
    return shutil.which(program, path=os.pathsep.join(map(str, folders + daemons)))


@dataclass(frozen=True)
class Need:
    """Something that a test needs, how to get it, and whether this machine has it."""

    name: str
    how: str
    is_here: Callable[[], bool]

    @property
    def reason(self) -> str:
        """Why a test was left out, and what to do."""
        return f"needs {self.name}: {self.how}"


def programs(name: str, *names: str, package: str, module: str = "") -> Need:
    """Return the need for programs of Debian's `package`, and for the module that talks to them.

    The module has the same name on the package index and in Python.
    """
    return Need(
        name,
        f"apt-get install {package}" + (f", pip install {module}" if module else ""),
        lambda: all(map(find, names)) and (not module or bool(find_spec(module))),
    )


def wheel(name: str) -> Need:
    """Return the need for a package of the package index."""
    return Need(name, f"pip install {name}", lambda: bool(find_spec(name.replace("-", "_"))))


FAKEREDIS = wheel("fakeredis")
GEVENT = wheel("gevent")


def require(*wanted: Need) -> None:
    """Skip the test that is being set up if something that it needs is missing."""
    import pytest

    for need in wanted:
        if not need.is_here():
            pytest.skip(need.reason)


def needs(need: Need) -> pytest.MarkDecorator:
    """Mark tests that need something."""
    import pytest

    return pytest.mark.skipif(not need.is_here(), reason=need.reason)
