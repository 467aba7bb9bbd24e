"""docker-compose.yml under a separate project name, for tests with a Docker engine."""

from __future__ import annotations

import os
from pathlib import Path

from development.ports import next_free
from lab import environment
from lab.tests.whole_shop import Answer, ask
from shop.tests.processes import run

LIMIT = 1200
"""Seconds for the longest command, an image's build."""


class Shop:
    """The project under a name, with its own images and settings."""

    def __init__(self, folder: Path) -> None:
        self.port, self.locust_port = next_free(18200), next_free(18300)
        self.file = folder / "env"
        name = f"flash-sale-test-{os.getpid()}"
        # Compose prefers the environment, which holds the tests' settings, to its file.
        own = {variable.name for variable in environment.ALL_VARIABLES}
        self._variables = {
            **{name: value for name, value in os.environ.items() if name not in own},
            "COMPOSE_PROJECT_NAME": name,
            "COMPOSE_ENV_FILES": str(self.file),
            "ENV_FILE": str(self.file),
            "COMPOSE_PROGRESS": "plain",
        }
        self.run("docker/new-env", "--demo")
        self.set(SHOP_PORT=self.port, LOCUST_PORT=self.locust_port, SHOP_VERSION=name, RATE_LIMIT=0)

    def set(self, **variables: object) -> None:
        """Change settings; later ones count."""
        with self.file.open("a") as file:
            file.writelines(f"{name}={value}\n" for name, value in variables.items())

    def run(self, *words: str, fails: bool = False) -> str:
        """Run a command in the project; return its output. It must succeed, or fail if `fails`."""
        done = run(*words, env=self._variables, seconds=LIMIT)
        assert (done.returncode != 0) == fails, f"{words}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    def compose(self, *words: str, fails: bool = False) -> str:
        """Run `docker compose`."""
        return self.run("docker", "compose", *words, fails=fails)

    def inside(self, service: str, *words: str, fails: bool = False) -> str:
        """Run a command in a service's container."""
        return self.compose("exec", "-T", service, *words, fails=fails)

    def ask(self, method: str, path: str, body: object = None, **headers: str) -> Answer:
        """Send a request to the shop through nginx."""
        return ask(self.port, method, path, body, **headers)

    def serves(self) -> bool:
        """Whether a request reaches a replica."""
        try:
            return self.ask("GET", "/healthz").status == 200
        except OSError:
            return False
