"""The check of the Helm chart refuses what Kubernetes would refuse."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

from lab import environment
from lab.tests.needs import TOOLS_OF_CI
from locking.tests.needs import needs

pytestmark = needs(TOOLS_OF_CI)

KUBERNETES = environment.PROJECT / "docker" / "kubernetes"


def checked(folder: Path) -> subprocess.CompletedProcess[str]:
    check = environment.PROJECT / ".ci" / "check_chart.py"
    return subprocess.run(
        [sys.executable, str(check), str(folder)],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


def test_the_chart_is_accepted() -> None:
    done = checked(KUBERNETES)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_broken_chart_is_refused(tmp_path: Path) -> None:
    """A number as text, a misspelt probe, an unknown kind, a value that no template knows."""
    folder = tmp_path / "kubernetes"
    shutil.copytree(KUBERNETES, folder)
    for file, right, wrong in (
        ("shop/templates/beat.yaml", "replicas: 1", "replicas: one"),
        ("shop/templates/web.yaml", "livenessProbe:", "livenesProbe:"),
        ("shop/templates/network.yaml", "kind: NetworkPolicy", "kind: NetworkRule"),
        ("engines/redis.yaml", "redis.opstreelabs.in/v1beta2", "redis.opstreelabs.in/v9"),
    ):
        path = folder / file
        text = path.read_text()
        assert right in text
        path.write_text(text.replace(right, wrong))
    done = checked(folder)
    assert done.returncode == 1
    for said in ("'one' is not", "livenesProbe", "no NetworkRule", "no RedisSentinel in"):
        assert said in done.stderr, done.stderr
