"""The packages: their installation here, their metadata, and their release."""

from __future__ import annotations

import os
import re
import shutil
import sys
import tomllib
import zipfile
from collections.abc import Sequence
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import pytest

from development.tests.mounts import run_on
from lab import environment
from shop.tests.processes import run, succeed

INSTALL = (sys._base_executable, ".ci/environment.py")  # type: ignore[attr-defined]
WHEELS = 12


NEWER = (
    "import runpy, sys; sys.version_info = (3, 99); sys.argv[:1] = []; "
    "runpy.run_path(sys.argv[0], run_name='__main__')"
)


def install(
    folder: Path | str, requirements: Path, links: Path, command: Sequence[str] = INSTALL
) -> CompletedProcess[str]:
    """Install from wheels in the folder `links` and from no index."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("PIP_")}
    env = {**inherited, "PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(links)}
    return run(*command, folder, requirements, env=env, seconds=90)


@pytest.fixture
def requirements(tmp_path: Path) -> Path:
    """A requirements file of small packages, with their wheels next to it."""
    for number in range(WHEELS):
        name = f"shop_test_{number}-1.dist-info"
        with zipfile.ZipFile(tmp_path / f"shop_test_{number}-1-py3-none-any.whl", "w") as wheel:
            wheel.writestr(f"shop_test_{number}.py", "")
            wheel.writestr(
                f"{name}/METADATA", f"Metadata-Version: 2.1\nName: shop-test-{number}\nVersion: 1\n"
            )
            wheel.writestr(
                f"{name}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
            )
            wheel.writestr(f"{name}/RECORD", "")
    listed = [f"shop-test-{number}==1" for number in range(WHEELS)]
    other_system = "not-here==1 ; sys_platform == 'none'"
    path = tmp_path / "requirements.txt"
    path.write_text("\n".join([*listed, other_system]) + "\n")
    return path


@pytest.mark.long
def test_environment_counts_packages_and_replaces_a_broken_one(tmp_path, requirements):
    folder = tmp_path / "venv"
    done = install(folder, requirements, tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert f"collecting: 10 of {WHEELS}\n" in done.stdout
    [site] = folder.glob("lib/*/site-packages")
    assert len(list(site.glob("shop_test_*.py"))) == WHEELS

    for part in site.glob("pip*"):  # as after Ctrl-C in the first seconds
        shutil.rmtree(part)
    again = install(folder, requirements, tmp_path)
    assert (again.returncode, again.stderr) == (0, "")
    assert "Making a virtual environment" in again.stdout


@pytest.mark.long
def test_environment_names_a_package_that_cannot_be_installed(tmp_path):
    path = tmp_path / "requirements.txt"
    path.write_text("no-such-package==1\n")
    done = install(sys.prefix, path, tmp_path)
    assert done.returncode == 1
    *reasons, last = done.stderr.splitlines()
    assert all(line.startswith("ERROR: ") for line in reasons)
    assert "no-such-package==1" in done.stderr
    assert last.startswith("error: the packages could not be installed")
    assert last.endswith("Fix it and repeat the command.")
    done = install(sys.prefix, path, tmp_path, (INSTALL[0], "-c", NEWER, INSTALL[1]))
    assert "This Python, 3.99, is newer than they are: make PYTHON=python3.14 …" in done.stderr


def test_environment_names_a_folder_that_cannot_be_written(tmp_path):
    command = (*INSTALL, str(tmp_path / "venv"), "requirements.txt")
    if os.geteuid() == 0:
        done = run_on(tmp_path, "ro", command, dict(os.environ), environment.PROJECT)
    else:
        tmp_path.chmod(0o555)
        done = run(*command)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith(f"error: {tmp_path} cannot be written")
    assert done.stderr.count("\n") == 1


BACKENDS = {
    "redis": ["redis_lock", "redis_lock_async", "queue", "redis_client", "backends.redlock"],
    "postgresql": ["backends.postgres"],
    "memcached": ["backends.memcached"],
    "zookeeper": ["backends.zookeeper"],
    "etcd": ["backends.etcd"],
}
"""The modules of `locking` that need a client, by extra."""

CLIENTS = {
    "redis": "redis",
    "psycopg": "psycopg",
    "pymemcache": "pymemcache",
    "kazoo": "kazoo",
    "etcd3gw": "etcd3gw",
}
"""Import names by distribution."""

FOLDER = environment.PROJECT / "locking"


def project(package: str) -> dict[str, Any]:
    path = environment.PROJECT / "packaging" / package / "pyproject.toml"
    found: dict[str, Any] = tomllib.loads(path.read_text())["project"]
    return found


def test_package_has_an_extra_for_every_backend():
    extras = project("locking")["optional-dependencies"]
    assert set(extras) == set(BACKENDS)
    public = {f"backends.{path.stem}" for path in FOLDER.glob("backends/[!_]*.py")}
    named = {name for names in BACKENDS.values() for name in names if "." in name}
    assert named == public - {"backends.common"}  # which needs no client


def test_contract_needs_no_client():
    absent = dict.fromkeys(CLIENTS.values())
    succeed(sys.executable, "-c", f"import sys; sys.modules.update({absent}); import locking")


@pytest.mark.parametrize("extra", BACKENDS)
def test_extra_installs_what_its_backends_import(extra):
    wanted = project("locking")["optional-dependencies"][extra]
    brought = {re.split(r"[\[<>=]", each)[0] for each in wanted}
    absent = [name for distribution, name in CLIENTS.items() if distribution not in brought]
    imports = [f"locking.{name}" for name in BACKENDS[extra]]
    imports += [CLIENTS[distribution] for distribution in brought]
    script = f"import sys; sys.modules.update(dict.fromkeys({absent})); import {', '.join(imports)}"
    succeed(sys.executable, "-c", script)


def test_packages_have_the_same_version():
    version = project("locking")["version"]
    assert project("inventory")["version"] == project("loadtest")["version"] == version
    assert f"fenced-locking[redis]=={version}" in project("inventory")["dependencies"]


FILES = (
    "CHANGELOG.md",
    "packaging/release.py",
    *(f"packaging/{name}/pyproject.toml" for name in ("locking", "inventory", "loadtest")),
)


def git(folder: Path, *words: str) -> str:
    return succeed("git", *words, cwd=folder).strip()


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


def release(folder: Path, version: str) -> CompletedProcess[str]:
    return run(sys.executable, "packaging/release.py", version, cwd=folder)


def test_release_has_one_version_in_packages_and_tag(repository):
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
    ("version", "message"),
    [("1.0", "three numbers"), ("v8.0.0", "three numbers"), ("0.0.1", "older")],
)
def test_release_refuses_a_version_that_cannot_follow(repository, version, message):
    done = release(repository, version)
    assert (done.returncode, git(repository, "tag")) == (1, "")
    assert message in done.stderr


def test_release_refuses_repeats_and_a_dirty_tree(repository):
    release(repository, "7.1.0")
    assert "tagged already" in release(repository, "7.1.0").stderr
    assert "nothing under" in release(repository, "7.2.0").stderr
    (repository / "CHANGELOG.md").write_text("## [Unreleased]\n\n- More.\n")
    assert "not committed" in release(repository, "7.2.0").stderr
    assert git(repository, "tag") == "v7.1.0"


PINNED = [environment.PROJECT / "requirements.txt"]
PINNED += sorted((environment.PROJECT / "requirements").glob("*.txt"))


@pytest.mark.parametrize("path", PINNED, ids=lambda path: path.name)
def test_requirements_leave_hiredis_out(path: Path):
    """It crashes the interpreter after exceptions from signals; see docs/dependencies.md."""
    assert "hiredis" not in path.read_text()
