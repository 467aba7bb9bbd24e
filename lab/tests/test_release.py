"""The release script: version, changelog, commit and tag."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from lab import environment

FILES = (
    *("CHANGELOG.md", "packaging/release.py"),
    *(f"packaging/{name}/pyproject.toml" for name in ("locking", "inventory", "loadtest")),
)


def git(folder: Path, *words: str) -> str:
    done = subprocess.run(["git", *words], cwd=folder, check=True, capture_output=True, text=True)
    return done.stdout.strip()


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository of the files that a release changes."""
    for kind in ("AUTHOR", "COMMITTER"):
        monkeypatch.setenv(f"GIT_{kind}_NAME", "A")
        monkeypatch.setenv(f"GIT_{kind}_EMAIL", "a@example.com")
    for name in FILES:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(environment.PROJECT / name, tmp_path / name)
    # Whatever is released already, the next change is not.
    changes = (tmp_path / "CHANGELOG.md").read_text()
    head = changes.partition("## [Unreleased]\n")[0]
    (tmp_path / "CHANGELOG.md").write_text(f"{head}## [Unreleased]\n\n### Added\n\n- A thing.\n")
    git(tmp_path, "init", "-q")
    git(tmp_path, "add", "-A")
    git(tmp_path, "commit", "-qm", "Begin")
    return tmp_path


def release(folder: Path, version: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "packaging/release.py", version]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


def test_a_release_has_one_version_in_all_packages_and_in_the_tag(repository):
    assert release(repository, "7.1.0").returncode == 0
    assert git(repository, "describe") == "v7.1.0"
    assert git(repository, "status", "--porcelain") == ""
    locking, inventory, loadtest = (
        tomllib.loads((repository / name).read_text())["project"] for name in FILES[2:]
    )
    assert {each["version"] for each in (locking, inventory, loadtest)} == {"7.1.0"}
    assert "fenced-locking[redis]==7.1.0" in inventory["dependencies"]
    changes = (repository / "CHANGELOG.md").read_text()
    assert re.search(r"## \[Unreleased\]\n\n## \[7\.1\.0\] - \d{4}-\d\d-\d\d\n\n### Added", changes)


@pytest.mark.parametrize(
    ("version", "told"), [("1.0", "three numbers"), ("v8.0.0", "three numbers"), ("0.0.1", "older")]
)
def test_a_version_that_cannot_follow_is_refused(repository, version, told):
    done = release(repository, version)
    assert (done.returncode, git(repository, "tag")) == (1, "")
    assert told in done.stderr


def test_nothing_is_released_twice_or_without_a_change_or_with_a_dirty_tree(repository):
    release(repository, "7.1.0")
    assert "tagged already" in release(repository, "7.1.0").stderr
    assert "nothing under" in release(repository, "7.2.0").stderr
    (repository / "CHANGELOG.md").write_text("## [Unreleased]\n\n- More.\n")
    assert "not committed" in release(repository, "7.2.0").stderr
    assert git(repository, "tag") == "v7.1.0"
