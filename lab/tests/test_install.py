"""The Makefile's first step: the virtual environment and its packages."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from lab import environment
from shop.tests.mounts import run_on

INSTALL = (sys._base_executable, ".ci/environment.py")  # type: ignore[attr-defined]
PACKAGES = 12


def install(
    folder: Path | str, requirements: Path, links: Path
) -> subprocess.CompletedProcess[str]:
    """Install from wheels in the folder `links` and from no index."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("PIP_")}
    return subprocess.run(
        [*INSTALL, str(folder), str(requirements)],
        cwd=environment.PROJECT,
        env={**inherited, "PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(links)},
        capture_output=True,
        text=True,
        check=False,
        timeout=90,
    )


@pytest.fixture
def requirements(tmp_path: Path) -> Path:
    """A requirements file of small packages, with their wheels beside it."""
    for number in range(PACKAGES):
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
    listed = [f"shop-test-{number}==1" for number in range(PACKAGES)]
    other_system = "not-here==1 ; sys_platform == 'none'"
    path = tmp_path / "requirements.txt"
    path.write_text("\n".join([*listed, other_system]) + "\n")
    return path


@pytest.mark.long
def test_packages_are_counted_and_a_broken_environment_is_made_again(tmp_path, requirements):
    folder = tmp_path / "venv"
    done = install(folder, requirements, tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert f"downloading: 10 of {PACKAGES}\n" in done.stdout
    [site] = folder.glob("lib/*/site-packages")
    assert len(list(site.glob("shop_test_*.py"))) == PACKAGES

    for part in site.glob("pip*"):  # as after Ctrl-C in the first seconds
        shutil.rmtree(part)
    again = install(folder, requirements, tmp_path)
    assert (again.returncode, again.stderr) == (0, "")
    assert "Making a virtual environment" in again.stdout


def test_a_package_that_cannot_be_had_is_named(tmp_path):
    path = tmp_path / "requirements.txt"
    path.write_text("no-such-package==1\n")
    done = install(sys.prefix, path, tmp_path)
    assert done.returncode == 1
    *reasons, last = done.stderr.splitlines()
    assert all(line.startswith("ERROR: ") for line in reasons)
    assert "no-such-package==1" in done.stderr
    assert last.startswith("error: the packages could not be installed")


def test_a_folder_that_cannot_be_written_is_named(tmp_path):
    command = (*INSTALL, str(tmp_path / "venv"), "requirements.txt")
    if os.geteuid() == 0:
        done = run_on(tmp_path, "ro", command, dict(os.environ), environment.PROJECT)
    else:
        tmp_path.chmod(0o555)
        done = subprocess.run(
            command, cwd=environment.PROJECT, capture_output=True, text=True, check=False
        )
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith(f"error: {tmp_path} cannot be written")
    assert done.stderr.count("\n") == 1
