"""What only the lab's tests need; `development/needs.py` says how needs work."""

from __future__ import annotations

import subprocess
from functools import cache
from importlib.util import find_spec

from development.needs import Need, programs


@cache
def _has_engine() -> bool:
    asked = "docker info && docker compose version"
    return not subprocess.run(["sh", "-c", asked], capture_output=True, check=False).returncode


PROMETHEUS = programs("Prometheus", "prometheus", "promtool", package="prometheus")
NGINX = programs("nginx", "nginx", package="nginx-light")
ENGINE = Need(
    "a Docker engine with Compose v2",
    ".ci/docker-engine install && .ci/docker-engine start && "
    "export $(.ci/docker-engine variables), as root",
    _has_engine,
)
TOOLS_OF_CI = Need(
    "Helm and pip-audit",
    "make .venv/.ci",
    lambda: bool(find_spec("helm_python") and find_spec("pip_audit")),
)
