"""docker/ha on an engine: `prove --compose ha` breaks each server under load, and nothing is lost.

Needs a Docker engine with Compose v2; `.ci/docker-engine` installs one on Linux as root.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest

from development.needs import require
from lab.tests.needs import ENGINE
from loadtest.faults import CONTAINER_FAULTS
from shop.tests.processes import run

pytestmark = [
    pytest.mark.long,
    pytest.mark.nightly,
    pytest.mark.docker_engine,
    pytest.mark.timeout(3600),
]

SEED = int(time.time()) // 86400
"""Each night does something else to each server."""


def test_proof_in_containers_passes_and_leaves_nothing(tmp_path: Path) -> None:
    require(ENGINE)
    out = tmp_path / "result.json"
    command = [sys.executable, "manage.py", "prove", "--compose", "ha", "--buyers", "200"]
    done = run(*command, "--seed", SEED, "--json", out, seconds=3500)
    assert done.returncode == 0, done.stdout + done.stderr
    result = json.loads(out.read_text())
    assert sorted(fault["fault"] for fault in result["faults"]) == sorted(CONTAINER_FAULTS)
    # Somebody bought before the server was back.
    assert all(fault["after_loss"] < fault["seconds"] for fault in result["faults"]), result
    assert (result["counts"]["oversold"], result["counts"]["lost"]) == (0, 0)
    assert containers("flash-sale-proof-") == ""
    assert "See the books" not in done.stdout  # its database is gone, too


def containers(project: str) -> str:
    """Return the names of the containers of projects, running or not."""
    ask = ("docker", "ps", "--all", "--filter", f"name={project}", "--format", "{{.Names}}")
    return subprocess.check_output(ask, text=True).strip()
