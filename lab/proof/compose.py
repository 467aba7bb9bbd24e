"""The shop of docker-compose.yml with servers that fail over, for `prove --compose ha`.

It is the shop that an operator starts (docs/high-availability.md), with the demo's provider and
mail server. This process reaches it by HTTP and by the `docker` command only.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial

import urllib3

from development import StackError
from development.leftovers import private_folder
from development.ports import next_free, release
from development.signals import shielded
from lab.proof.testbed import Testbed
from loadtest.checker.snapshot import Item
from loadtest.compose import EngineFailed, Project
from loadtest.faults import Target
from loadtest.faults.containers import PAUSE, WHOLE, Cluster
from loadtest.full_shop import ShopRefused
from loadtest.sales import item_of
from loadtest.shops.flash_sale.adapter import Adapter

NAMES = ("ha",)
"""Folders of docker/ with servers that fail over."""

FIRST_PORT = 18200

SERVICES = ("nginx", "psp", "mail", "celery", "celery-expiry")
"""With what they depend on. The shop serves when these are healthy; beat is looked at rarely."""


@dataclass(frozen=True, slots=True)
class ComposedShop(Testbed):
    """A shop in containers.

    Attributes:
        project: its containers.
    """

    project: Project | None = None

    def items(self, sales: Sequence[int]) -> list[Item]:
        """Ask the shop itself; its database is on a network that this process is not on."""
        shop, began = Adapter(self.url), time.monotonic()
        try:
            return [item_of(shop.figures(str(sale))) for sale in sales]
        except ShopRefused:
            return []
        finally:
            # As long as the look took, so that looking does not become a load.
            time.sleep(time.monotonic() - began)

    def available(self, sale: int) -> int | None:
        """Ask the shop for what its buyers are shown."""
        try:
            answer = urllib3.request(
                "GET",
                f"{self.url}/api/v1/sales/{sale}",
                headers={"Connection": "close"},
                timeout=10,
                retries=False,
            )
        except urllib3.exceptions.HTTPError:
            return None
        return int(answer.json()["available"]) if answer.status == 200 else None

    def recover(self, say: Callable[[str], None]) -> None:
        """Restart the web containers, which may still work on a request of the run."""
        assert self.project is not None
        assert self.log is not None
        say("restarting the web containers")
        try:
            self.log.write_text(self.project.compose("logs", "--no-color", "web", "celery"))
            self.project.compose("restart", "web")
            _wait_until_whole(self.project)
        except EngineFailed as error:
            raise StackError(str(error)) from error


@contextmanager
def composed(name: str) -> Iterator[ComposedShop]:
    """Start the shop under a project name of its own; remove everything afterwards.

    Args:
        name: of `NAMES`.

    Raises:
        StackError: there is no engine, or something does not come up.
    """
    with private_folder() as folder, ExitStack() as cleanup:
        project = Project(folder / "env")
        port = next_free(FIRST_PORT)
        cleanup.callback(release, port)
        own = f"flash-sale-proof-{os.getpid()}"
        try:
            project.run("docker/new-env", "--demo", f"--{name}")
            project.set(SHOP_PORT=port, COMPOSE_PROJECT_NAME=own, SHOP_VERSION=own, RATE_LIMIT=0)
            cleanup.callback(_remove, project)
            project.compose("up", "--build", "--detach", "--wait", *SERVICES)
            project.compose("up", "--detach", "--no-recreate", "beat")
            _wait_until_whole(project)
        except EngineFailed as error:
            raise StackError(f"The shop in containers does not start: {error}") from error
        url = f"http://127.0.0.1:{port}"
        nowhere = partial(Target, database="", database_folder="", redis="", broker="")
        figures = "/api/v1/demo/sales/{}/figures"
        target = nowhere(web=url, shop=0, compose=str(project.settings), figures_path=figures)
        log = folder / "containers.log"
        yield ComposedShop(url, target=target, log=log, stays=False, project=project)


def _wait_until_whole(project: Project) -> None:
    """Wait until all servers are healthy and know each other. Raises `StackError`."""
    deadline = time.monotonic() + WHOLE
    while reason := Cluster(project).shortcoming():
        if time.monotonic() > deadline:
            raise StackError(f"The servers are not whole after {WHOLE:g} s: {reason}")
        time.sleep(PAUSE)


def _remove(project: Project) -> None:
    with shielded():
        project.compose("down", "--volumes", "--rmi", "local", "--timeout", "1")
