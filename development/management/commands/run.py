"""`manage.py run`: the whole shop on this machine until Ctrl-C."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
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
        """Run until Ctrl-C or until the web ends."""
        end_on_signals()
        call_command("migrate", verbosity=0, interactive=False)
        sign_in = administrator()
        if not Sale.objects.exists():
            open_sale(stock=100, price=999_00, limit=2)
        os.environ["SHOP_PORT"] = str(asked_or_free("SHOP_PORT"))
        url = f"http://127.0.0.1:{os.environ['SHOP_PORT']}"
        self.stdout.write(f"The shop:  {url}/\nThe admin: {url}/admin/{sign_in}")
        self.stdout.flush()  # also into a file or a pipe, before the processes say anything
        schedule = str(data_folder() / "beat-schedule")
        celery = (
            *("celery", "-q", "-A", "shop", "worker", "--beat", "-s", schedule, "-c", "2"),
            *("-Q", ",".join(QUEUES), "--loglevel", "WARNING"),
        )
        web = start("gunicorn", "-c", "gunicorn.conf.py", "shop.wsgi")
        run_until_the_web_ends(web, lambda: start(*celery))


def administrator() -> str:
    """Make the administrator's account unless there is one.

    Returns:
        Its name and first password, to be shown after a link; empty once it has another one.
    """
    password = kept_secret("admin-password")
    if not User.objects.filter(is_superuser=True).exists():
        User.objects.create_superuser(ADMIN, "", password)
    first = User.objects.filter(username=ADMIN).first()
    return f"  {ADMIN} / {password}" if first and first.check_password(password) else ""


def run_until_the_web_ends(
    web: subprocess.Popen[bytes], start_celery: Callable[[], subprocess.Popen[bytes]]
) -> None:
    """Keep Celery running until the web ends: a worker that loses its broker may end (kombu 5.7).

    Raises:
        CommandError: the web ended by itself.
    """
    celery = start_celery()
    try:
        while web.poll() is None:
            time.sleep(0.5)
            if (status := celery.poll()) is not None:
                sys.stderr.write(f"Celery ended with status {status} and is started again.\n")
                end(celery)
                celery = start_celery()
        raise CommandError(f"gunicorn ended with status {web.returncode}.")
    finally:
        for process in (web, celery):
            process.terminate()
        for process in (web, celery):
            end(process)


def end(process: subprocess.Popen[bytes]) -> None:
    """Wait for a process that ends; kill it if it stays, and the children that it leaves."""
    with suppress(subprocess.TimeoutExpired):
        process.wait(SECONDS)
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)  # of the session that `start` has made


def start(*module: str) -> subprocess.Popen[bytes]:
    """Start a Python module; it is told to end by this command, not by Ctrl-C."""
    command = [sys.executable, "-m", *module]
    return subprocess.Popen(command, cwd=environment.PROJECT, start_new_session=True)
