"""How a shop is installed, filled and started, as data: `lab/stack/hosting.py` carries it out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path


@dataclass(frozen=True)
class Setup:
    """A shop from its packages to its servers.

    Texts may name values of the run: `{python}` and `{bin}` of its own environment, `{port}`,
    `{database}` with its parts `{db_host}`, `{db_port}`, `{db_user}`, `{db_password}` and
    `{db_name}`, `{redis}`, `{psql}`, `{workers}`, `{secret}`, and the folders `{files}` (a copy of
    the adapter's `project/`) and `{repository}`.

    Attributes:
        python: packages from PyPI, pinned, for a virtual environment of its own.
        node: packages from npm, pinned.
        steps: commands that fill the empty database, once.
        serve: the commands of its servers, by name; `web` is the one that buyers reach.
        ready: a path that answers with a status below 500 as soon as the shop serves.
        environment: variables for the steps and the servers.
        rows: named sets of further variables: documented settings that may change the verdict.
        folder: where commands run.
    """

    serve: Mapping[str, tuple[str, ...]]
    python: tuple[str, ...] = ()
    node: tuple[str, ...] = ()
    steps: tuple[tuple[str, ...], ...] = ()
    ready: str = "/"
    environment: Mapping[str, str] = field(default_factory=dict)
    rows: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    folder: str = "{files}"

    @property
    def needs_packages(self) -> bool:
        """Whether it has to be installed before it can be served."""
        return bool(self.python or self.node)


def names() -> list[str]:
    """Return the shops that can be installed."""
    return sorted(path.parent.name for path in Path(__file__).parent.glob("*/install.py"))


def setup_of(name: str) -> Setup:
    """Return the description of the shop `name`."""
    setup: Setup = import_module(f"loadtest.shops.{name}.install").SETUP
    return setup


FILLED = "filled"
"""In a shop's folder: its packages are installed, and its database is filled."""


def installed(folder: Path) -> list[str]:
    """Return the shops that start within seconds: those in `folder`, or without packages."""
    return [
        name
        for name in names()
        if not setup_of(name).needs_packages or (folder / name / FILLED).exists()
    ]
