"""The repository that a shop is taken home to: `make take-home DEST=../acme NAME="Acme Tickets"`.

It needs Python and git only.
Its branch `upstream` has what was copied and nothing else. So git can merge a later copy into what
the team has made of the first one.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from lab.take_home.copying import OWN, PROJECT, copy, defaults_of

try:
    from django.conf.locale import LANG_INFO as LANGUAGES
except ImportError:  # without an environment here, the copy refuses the language when it starts
    LANGUAGES = {}

UPSTREAM = "upstream"

NAME = re.compile(r'[^"\\\x00-\x1f]{1,40}')
"""A shop's name fits between quotes, and on a line of code."""

NOBODY = ("-c", "user.name=take-home", "-c", "user.email=take-home@localhost")

NEW = """{folder} is {name}. Go there, and:
  make test     install the environment and run the tests
  make run      start the shop with everything that it needs"""

AGAIN = """The branch `{branch}` of {folder} is up to date. Go there, and:
  git merge {branch}
  make test"""


class NotTaken(Exception):
    """The shop was not copied; the message says why."""


def take(destination: Path, name: str, **defaults: str) -> str:
    """Copy the shop into a new repository, or into the branch `upstream` of an earlier copy.

    Args:
        destination: a new or empty folder, or a shop that was taken home before.
        name: the shop's name.
        defaults: of environment variables, by name; an earlier copy keeps the others.

    Returns:
        What to do next.

    Raises:
        NotTaken: the folder is neither or not named, or the shop could not start with a default.
    """
    if destination == Path():
        raise NotTaken("DEST is missing: make take-home DEST=../acme …")
    destination = destination.resolve()
    given = {"SHOP_NAME": name, **defaults}
    _check(given)
    defaults = {**defaults_of((PROJECT / OWN).read_text(encoding="utf-8")), **given}
    version = _git(PROJECT, "rev-parse", "--short", "HEAD")
    if not destination.exists() or (destination.is_dir() and not any(destination.iterdir())):
        _git(PROJECT, "init", "--quiet", f"--initial-branch={UPSTREAM}", str(destination))
        copy(destination, defaults)
        _commit(destination, f"Take the shop home from {version}")
        _git(destination, "checkout", "--quiet", "-b", "main")
        return NEW.format(folder=destination, name=name)
    if not _has_upstream(destination):
        raise NotTaken(f"{destination} is not empty, and no shop was taken home there.")
    if _git(destination, "ls-tree", UPSTREAM, OWN):
        before = defaults_of(_git(destination, "show", f"{UPSTREAM}:{OWN}"))
        defaults = {**defaults, **before, **given}
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder) / UPSTREAM
        _git(destination, "worktree", "add", "--quiet", str(tree), UPSTREAM)
        try:
            _git(tree, "rm", "-r", "--quiet", "--ignore-unmatch", ".")
            copy(tree, defaults)
            _commit(tree, f"Bring the copy up to {version}")
        finally:
            _git(destination, "worktree", "remove", "--force", str(tree))
    return AGAIN.format(folder=destination, branch=UPSTREAM)


def _check(given: Mapping[str, str]) -> None:
    """Refuse what the shop could not start with, as far as Python alone can tell."""
    if not NAME.fullmatch(given["SHOP_NAME"]):
        raise NotTaken(
            'NAME needs 1 to 40 characters, no " and no \\: make take-home NAME="Acme Tickets" …'
        )
    for code in given.get("SHOP_LANGUAGES", "en").split(","):
        if LANGUAGES and "name_local" not in LANGUAGES.get(code, {}):
            raise NotTaken(f"Django knows no language {code!r}: LANGUAGES=en,zh-hans …")
    if not re.fullmatch("[A-Z]{3}", given.get("SHOP_CURRENCY", "CNY")):
        raise NotTaken("CURRENCY needs a code of ISO 4217: CURRENCY=EUR …")


def _has_upstream(folder: Path) -> bool:
    if not (folder / ".git").exists():
        return False
    return bool(_git(folder, "branch", "--list", UPSTREAM))


def _commit(folder: Path, message: str) -> None:
    _git(folder, "add", "--all")
    if _git(folder, "status", "--porcelain"):
        known = subprocess.run(
            ["git", "var", "GIT_COMMITTER_IDENT"], cwd=folder, capture_output=True, check=False
        )
        # A team whose git has no name and address set can still take the shop home.
        nobody = () if known.returncode == 0 else NOBODY
        _git(folder, *nobody, "commit", "--quiet", "--no-verify", "-m", message)


def _git(folder: Path, *words: str) -> str:
    done = subprocess.run(["git", *words], cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise NotTaken(f"git {words[0]} in {folder} failed: {done.stderr.strip()}")
    return done.stdout.strip()


def main() -> None:
    """Take the shop home, or bring one that was taken home up to date."""
    parser = argparse.ArgumentParser(prog="take-home", description=take.__doc__)
    parser.add_argument("destination", type=Path)
    parser.add_argument("name", help="the shop's name")
    parser.add_argument("--pages", dest="SHOP_PAGES", choices=["yes", "none"])
    parser.add_argument("--payments", dest="SHOP_PAYMENTS", choices=["yes", "none"])
    parser.add_argument(
        "--languages", dest="SHOP_LANGUAGES", help="codes such as en,zh-hans, the default first"
    )
    parser.add_argument("--currency", dest="SHOP_CURRENCY", help="of ISO 4217, such as EUR")
    given = vars(parser.parse_args())
    destination, name = given.pop("destination"), given.pop("name").strip()
    as_setting = {"yes": "1", "none": "0"}
    defaults = {
        variable: as_setting.get(value, value.replace(" ", ""))
        for variable, value in given.items()
        if value
    }
    try:
        print(take(destination, name, **defaults))
    except NotTaken as refused:
        sys.exit(f"error: {refused}")


if __name__ == "__main__":
    main()
