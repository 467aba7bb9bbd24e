"""The bed's operator, with real servers: a standby that receives nothing is rebuilt."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from lab import environment

pytestmark = [
    pytest.mark.long,
    pytest.mark.nightly,
    pytest.mark.hosts,
    pytest.mark.timeout(400),
]


def test_a_standby_that_its_agent_calls_healthy_and_that_receives_nothing_is_rebuilt():
    command = [sys.executable, "-m", "lab.bed.tests.standing_still"]
    done = subprocess.run(
        command, cwd=environment.PROJECT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    said = json.loads(done.stdout)
    assert said["unsettled"]
    assert all("reaches" in reason for reason in said["unsettled"])
    assert all("received nothing for 5 s and was rebuilt" in each for each in said["done"])
    assert said["done"]
