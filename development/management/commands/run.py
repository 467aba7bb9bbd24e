"""`manage.py run`: the whole shop on this machine until Ctrl-C."""

from __future__ import annotations

import sys
import time
from typing import Any

from django.core.management import call_command
from django.core.management.base import BaseCommand, CommandError

from development.folder import data_folder, kept_secret
from development.ports import asked_or_free
from development.processes import Web, Worker
from development.servers import Server
from development.signals import end_on_signals
from shop import environment
from shop.accounts.models import User
from shop.catalogue.models import Sale
from shop.catalogue.sales import open_sale

ADMIN = "admin"


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
        port = asked_or_free("SHOP_PORT")
        url = f"http://127.0.0.1:{port}"
        self.stdout.write(f"The shop:  {url}/\nThe admin: {url}/admin/{sign_in}")
        self.stdout.flush()  # also into a file or a pipe, before the processes say anything
        schedule = str(data_folder() / "beat-schedule")
        beat = ("--beat", "-s", schedule, "--loglevel", "WARNING")
        web = Web(port=port)
        celery = Worker(environment.text("CELERY_BROKER_URL"), options=beat)
        web.on_terminal = celery.on_terminal = True
        web.begin()
        run_until_the_web_ends(web, celery)


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


def run_until_the_web_ends(web: Server, celery: Server) -> None:
    """Keep Celery running until the web ends: a worker that loses its broker may end (kombu 5.7).

    Args:
        web: runs.
        celery: is started.

    Raises:
        CommandError: the web ended by itself.
    """
    celery.begin()
    try:
        while web.is_running:
            time.sleep(0.5)
            if not celery.is_running:
                sys.stderr.write("Celery ended and is started again.\n")
                celery.kill()  # the children that it left
                celery.begin()
        raise CommandError("gunicorn ended.")
    finally:
        for server in (web, celery):
            server.ask_to_end()
        for server in (web, celery):
            server.wait_for_end()
            server.remove()
