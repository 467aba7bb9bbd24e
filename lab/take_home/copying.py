"""What goes along when the shop is taken home: a list of paths, each copied as it is.

What differs between this repository and a shop of its own is in files of its own: those of `files/`
take the place of ours, and `own/shop.toml` is written anew from `shop.toml.in`.
"""

from __future__ import annotations

import shutil
import subprocess
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from string import Template

from lab.take_home.wheel import build_wheel

PROJECT = Path(__file__).resolve().parent.parent.parent
FILES = "lab/take_home/files/"
TEMPLATE = Path(__file__).resolve().parent / "shop.toml.in"

OWN = "own/shop.toml"
"""What the shop is. A later copy takes the defaults of an earlier one from there."""

TAKEN = (
    ".ci/environment.py",
    ".dockerignore",
    ".env.example",
    ".gitignore",
    ".pre-commit-config.yaml",
    "Dockerfile",
    "LICENSE",
    "conftest.py",
    "development/",
    "docker-compose.yml",
    "docker/",
    "docs/backup.md",
    "docs/changing.md",
    "docs/deploying.md",
    "docs/draws.md",
    "docs/glossary.md",
    "docs/high-availability.md",
    "docs/kubernetes.md",
    "docs/operations.md",
    "docs/payments.md",
    "docs/stripe.md",
    "docs/upgrading.md",
    "docs/wechat-pay.md",
    "gunicorn.conf.py",
    "inventory/",
    "locking/",
    "manage.py",
    "own/",
    "requirements/development.in",
    "requirements/load.in",
    "requirements/load.txt",
    "requirements/production.in",
    "requirements/production.txt",
    "requirements/telemetry.in",
    "requirements/telemetry.txt",
    "requirements/test.in",
    "serving/",
    "shop/",
)
"""Files and folders that go along."""

STAYING = ("docker/demo/",)
"""What in them does not."""


def copy(folder: Path, defaults: Mapping[str, str]) -> None:
    """Copy the shop into a folder that is there.

    Args:
        defaults: of environment variables, by name; those of `own/shop.toml`.
    """
    for path in tracked():
        if path.startswith(TAKEN) and not path.startswith(STAYING):
            _copy(PROJECT / path, folder / path)
        elif path.startswith(FILES):
            _copy(PROJECT / path, folder / path.removeprefix(FILES))
    text = Template(TEMPLATE.read_text(encoding="utf-8")).substitute(defaults)
    (folder / OWN).write_text(text, encoding="utf-8")
    about = PROJECT / "packaging" / "loadtest" / "pyproject.toml"
    sources = {
        path: (PROJECT / path).read_bytes()
        for path in tracked()
        if path.startswith("loadtest/") and "/tests/" not in path
    }
    build_wheel(about, sources, folder / "wheels")


def defaults_of(text: str) -> dict[str, str]:
    """Return the defaults that an `own/shop.toml` has."""
    found: dict[str, str] = tomllib.loads(text)["defaults"]
    return found


def tracked() -> Iterator[str]:
    """Return the paths of the files here that git knows."""
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=PROJECT, capture_output=True, text=True, check=True
    )
    yield from (path for path in listed.stdout.split("\0") if path and (PROJECT / path).exists())


def _copy(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(source, target)
