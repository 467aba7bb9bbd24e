"""`manage.py run`: the whole shop on this machine until Ctrl-C."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from django.core.management import call_command
from django.core.management.base import BaseCommand, CommandError

from development.folder import data_folder, kept_secret
from development.ports import asked_or_free
from development.signals import end_on_signals
from shop import environment
from shop.accounts.models import User
from shop.background.config import QUEUES
from shop.catalogue.models import Sale
from shop.catalogue.sales import open_sale

ADMIN = "admin"

SECONDS = 15
"""Until a process that was asked to end is killed; longer than gunicorn's graceful time-out."""


class Command(BaseCommand):
    """Starts gunicorn and Celery; makes an account for the admin and a sale if there are none."""

    help = "Run the shop for development: web, background tasks, an administrator, a sale."

    def handle(self, *args: Any, **options: Any) -> None:
        """Run until Ctrl-C or until a process ends."""
        end_on_signals()
        call_command("migrate", verbosity=0, interactive=False)
        password = administrator()
        if not Sale.objects.exists():
            open_sale(stock=100, price=999_00, limit=2)
        os.environ["SHOP_PORT"] = str(asked_or_free("SHOP_PORT"))
        url = f"http://127.0.0.1:{os.environ['SHOP_PORT']}"
        self.stdout.write(f"The shop:  {url}/\nThe admin: {url}/admin/  {ADMIN} / {password}")
        self.stdout.flush()  # also into a file or a pipe, before the processes say anything
        schedule = str(data_folder() / "beat-schedule")
        processes = {
            "gunicorn": start("gunicorn", "-c", "gunicorn.conf.py", "shop.wsgi"),
            "celery": start(
                *("celery", "-A", "shop", "worker", "--beat", "-s", schedule, "-c", "2"),
                *("-Q", ",".join(QUEUES), "--loglevel", "WARNING"),
            ),
        }
        run_until_one_ends(processes)


def administrator() -> str:
    """Make the administrator's account unless there is one; return its first password."""
    password = kept_secret("admin-password")
    if not User.objects.filter(is_superuser=True).exists():
        User.objects.create_superuser(ADMIN, "", password)
    return password


def run_until_one_ends(processes: Mapping[str, subprocess.Popen[bytes]]) -> None:
    """Wait until a process ends; then end the others, because the shop needs all of them.

    Args:
        processes: by name.

    Raises:
        CommandError: a process ended by itself.
    """
    try:
        while not (ended := [name for name, one in processes.items() if one.poll() is not None]):
            time.sleep(0.2)
        status = processes[ended[0]].returncode
        raise CommandError(f"{ended[0]} ended by itself, with status {status}.")
    finally:
        for process in processes.values():
            process.terminate()
        for process in processes.values():
            with suppress(subprocess.TimeoutExpired):
                process.wait(SECONDS)
            process.kill()


def start(*module: str) -> subprocess.Popen[bytes]:
    """Start a Python module; it is told to end by this command, not by Ctrl-C."""
    command = [sys.executable, "-m", *module]
    return subprocess.Popen(command, cwd=environment.PROJECT, start_new_session=True)
