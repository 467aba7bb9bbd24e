"""`manage.py reset`, which `make reset` runs."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from development import leftovers
from development.embedded import EmbeddedServers
from development.folder import alone, make_folder
from lab import environment
from lab.stack.demo import LOCK

# Everything that the shop writes to its data folder. Listed by name, because the user chose the
# folder and may keep other files there. Private folders belong to running commands; abandoned ones
# are deleted as well.
WRITTEN = (
    "demo",
    "loadtest",
    "mail",
    "psp",
    "psp-key",
    "psp-url",
    "psp-webhook-secret",
    "secret-key",
    "servers",
)


class Command(BaseCommand):
    """Delete the demo's data, unless it is in use."""

    help = "Delete the demo's data: database, queues, mails, logs and secrets."
    requires_migrations_checks = False

    def handle(self, *args: Any, **options: Any) -> None:
        """Delete the data, unless it is in use."""
        data = environment.data_folder()
        if not data.exists():
            self.stdout.write(f"There is no data in {data}.")
            return
        leftovers.clear_abandoned()
        servers, demo = EmbeddedServers(data / "servers"), make_folder(data / "demo")
        with alone(demo / LOCK) as no_demo, servers.unused() as unused:
            if not (no_demo and unused):
                raise CommandError(
                    f"The data in {data} is in use. "
                    "Stop the demo (Ctrl-C) and other commands first."
                )
            leftovers.stop(demo)
            for name in WRITTEN:
                _delete(data / name)
        self.stdout.write(f"The data in {data} is deleted.")


def _delete(path: Path) -> None:
    """Delete `path` except lock files: a process waiting for one must find the same file."""
    if not path.is_dir():
        path.unlink(missing_ok=True)
        return
    locks = list(path.glob("*.lock"))
    if not locks:
        shutil.rmtree(path)
        return
    for child in path.iterdir():
        if child not in locks:
            _delete(child)
