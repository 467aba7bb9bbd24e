"""Each bed as a whole: it starts, one engine fails over, and the run is judged."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from lab import environment
from lab.tests.needs import of_bed
from locking.tests.needs import require

pytestmark = [
    pytest.mark.long,
    pytest.mark.nightly,
    pytest.mark.hosts,
    pytest.mark.timeout(400),
]


def prove(tmp_path: Path, bed: str, fault: str) -> tuple[int, dict[str, Any]]:
    """Return exit code and result of a proof on a bed."""
    require(*of_bed(bed))
    out = tmp_path / "result.json"
    command = [sys.executable, "manage.py", "prove", "--bed", bed, "--fault", fault]
    command += ["--buyers", "20", "--stock", "200", "--seed", "7", "--json", str(out)]
    done = subprocess.run(
        command, cwd=environment.PROJECT, capture_output=True, text=True, check=False
    )
    assert out.exists(), done.stdout + done.stderr
    return done.returncode, json.loads(out.read_text())


def judged(result: dict[str, Any], *names: str) -> dict[str, str]:
    """Return the verdicts on these properties, by name."""
    return {each["id"]: each["verdict"] for each in result["properties"] if each["id"] in names}


@pytest.mark.parametrize(
    ("bed", "fault"),
    [
        ("sentinel", "redis-primary-lost"),
        ("cluster", "cluster-primary-lost"),
        ("patroni", "postgres-primary-lost"),
        ("rabbitmq", "rabbitmq-leader-lost"),
        ("web", "beat-host-lost"),
    ],
)
def test_nothing_is_oversold_or_lost_while_another_host_takes_over(tmp_path, bed, fault):
    _, result = prove(tmp_path, bed, fault)
    # P12 and P20's patience belong to the proofs on a quiet machine.
    safe = ("P1", "P2", "P3", "P5", "P9", "P10", "P19")
    assert judged(result, *safe) == dict.fromkeys(safe, "pass"), result
    [injected] = result["faults"]
    old, new = injected["did"]["primary"].split(" -> ")
    assert old != new
    assert injected["after_loss"] > 0, "somebody bought after the loss"
    assert (result["counts"]["oversold"], result["counts"]["lost"]) == (0, 0)


def test_a_rolling_restart_fails_no_request(tmp_path):
    _, result = prove(tmp_path, "web", "web-rolling-restart")
    [injected] = result["faults"]
    assert len(injected["did"]) == 3, "every node was restarted"
    # Busy (503) is a busy machine's own answer, after which buyers come again.
    assert (result["counts"]["info"], result["counts"]["lost"]) == (0, 0)
    assert judged(result, "P3", "P5") == {"P3": "pass", "P5": "pass"}


def test_the_checker_finds_the_orders_that_an_asynchronous_standby_has_lost(tmp_path):
    code, result = prove(tmp_path, "patroni-asynchronous", "postgres-split")
    assert code == 1
    assert judged(result, "P3") == {"P3": "fail"}
    assert result["counts"]["lost"] > 0
