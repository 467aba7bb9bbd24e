#!/usr/bin/env python3
"""Make a release: ``packaging/release.py 0.2.0``.

Writes the version into all packages, dates the changelog's section, commits and tags. Nothing is
pushed or published; CONTRIBUTING.md has the steps that follow.
"""

import re
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
NAMES = ("locking", "inventory", "loadtest")
PACKAGES = [ROOT / "packaging" / name / "pyproject.toml" for name in NAMES]
CHANGELOG = ROOT / "CHANGELOG.md"


def git(*words):
    """Run git in the repository; return its output."""
    done = subprocess.run(["git", *words], cwd=ROOT, check=True, capture_output=True, text=True)
    return done.stdout.strip()


def numbers(version):
    """Return the numbers of a version.

    Raises:
        SystemExit: it is not three numbers.
    """
    if not re.fullmatch(r"\d+\.\d+\.\d+", version):
        sys.exit(f"error: a version is three numbers such as 0.2.0, not {version!r}")
    return [int(part) for part in version.split(".")]


def main(version):
    """Make the release.

    Raises:
        SystemExit: with one line that says what is wrong; nothing was changed.
    """
    old = re.search(r'^version = "(.*)"$', PACKAGES[0].read_text(), re.MULTILINE)[1]
    changes = CHANGELOG.read_text()
    first, found, unreleased = changes.partition("## [Unreleased]\n")
    if git("status", "--porcelain"):
        sys.exit("error: there are changes that are not committed")
    if f"v{version}" in git("tag").split():
        sys.exit(f"error: v{version} is tagged already")
    if numbers(version) < numbers(old):
        sys.exit(f"error: {version} is older than {old}")
    if not found or not unreleased.split("\n## ")[0].strip():
        sys.exit("error: CHANGELOG.md has nothing under [Unreleased]")
    day = datetime.now(UTC).date()
    CHANGELOG.write_text(f"{first}{found}\n## [{version}] - {day}\n{unreleased}")
    for path in PACKAGES:
        text = path.read_text().replace(f'version = "{old}"', f'version = "{version}"')
        path.write_text(text.replace(f"=={old}", f"=={version}"))
    git("commit", "-qam", f"Release {version}")
    git("tag", "-a", f"v{version}", "-m", f"Version {version}")
    print(f"Tagged v{version}. Next: git push --follow-tags, and see CONTRIBUTING.md.")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: packaging/release.py 0.2.0")
    main(sys.argv[1])
