"""A project of Docker Compose, as its user would handle it: by the `docker` command.

project = Project(Path("env"))          # written by docker/new-env
project.compose("up", "--detach")
project.inside("postgres1", "patronictl", "list")
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
"""Where docker-compose.yml is."""

KEPT = ("PATH", "HOME", "LANG", "TZ")
"""Variables that the commands get from this process, next to Docker's own. Compose prefers
variables to its file of settings, and this process may have settings of another shop."""

BUILD = 1200.0
"""Seconds that a command may take: an image is built."""


class EngineFailed(RuntimeError):
    """A command of Docker failed, or there is no engine; the message ends with its last lines."""


class Project:
    """The project of one file of settings.

    Args:
        settings: the file, which names the Compose files, and may be created later.
    """

    def __init__(self, settings: Path) -> None:
        self.settings = settings
        kept = {
            name: value
            for name, value in os.environ.items()
            if name in KEPT or name.startswith("DOCKER_") or name.lower().endswith("_proxy")
        }
        own = {"COMPOSE_ENV_FILES": str(settings), "ENV_FILE": str(settings)}
        self._variables = {**kept, **own, "COMPOSE_PROGRESS": "plain"}

    def set(self, **variables: object) -> None:
        """Change settings; later ones count."""
        with self.settings.open("a") as file:
            file.writelines(f"{name}={value}\n" for name, value in variables.items())

    def run(self, *words: str, seconds: float = BUILD) -> str:
        """Run a command next to docker-compose.yml; return its output.

        Raises:
            EngineFailed: it failed, or took longer than that.
        """
        try:
            done = subprocess.run(
                words,
                cwd=ROOT,
                env=self._variables,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                check=False,
                timeout=seconds,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise EngineFailed(f"{' '.join(words)}: {error}") from error
        if done.returncode:
            last = (done.stdout + done.stderr).strip().splitlines()[-15:]
            raise EngineFailed("\n".join([" ".join(words), *last]))
        return done.stdout

    def compose(self, *words: str, seconds: float = BUILD) -> str:
        """Run `docker compose`. Raises `EngineFailed`."""
        return self.run("docker", "compose", *words, seconds=seconds)

    def inside(self, service: str, *words: str, seconds: float = BUILD) -> str:
        """Run a command in a service's container. Raises `EngineFailed`."""
        return self.compose("exec", "-T", service, *words, seconds=seconds)

    def containers(self, service: str) -> list[str]:
        """Return the ids of a service's containers, running or not. Raises `EngineFailed`."""
        return self.compose("ps", "--all", "--quiet", service).split()
