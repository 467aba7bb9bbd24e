"""The lock with other versions of its client, each installed into a folder of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from locking.tests.servers import Valkey

pytestmark = [pytest.mark.long, pytest.mark.nightly]

VERSIONS = ("redis==5.0.8", "redis==5.2.1", "redis==6.4.0", "redis==7.1.0", "valkey==6.1.1")

SCENARIO = Path(__file__).parent / "client_scenario.py"


@pytest.mark.parametrize("requirement", VERSIONS)
def test_contention_time_outs_and_losses_with(
    requirement: str, tmp_path: Path, valkey_server: Valkey
):
    install = [str(Path(sys.executable).with_name("uv")), "pip", "install", "--quiet"]
    subprocess.run([*install, "--no-deps", "--target", str(tmp_path), requirement], check=True)
    done = subprocess.run(
        [sys.executable, "-W", "error", str(SCENARIO), requirement, valkey_server.endpoint],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), *sys.path[:1]])},
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "done\n"), done.stderr
