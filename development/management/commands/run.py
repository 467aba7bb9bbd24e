"""`manage.py run`: the whole shop on this machine until Ctrl-C."""

from __future__ import annotations

import sys
import time
from contextlib import ExitStack
from typing import Any

from django.conf import settings
from django.core.management import call_command
from django.core.management.base import BaseCommand, CommandError

from development import environment
from development.folder import data_folder, kept_secret, provider_announced
from development.ports import asked_or_free, next_free
from development.processes import PaymentProvider, Web, Worker, payment_variables
from development.servers import Server
from development.signals import end_on_signals
from shop import environment as shop_environment
from shop.accounts.models import User
from shop.catalogue.models import Sale
from shop.catalogue.sales import open_sale

ADMIN = "admin"

PAID_AT_ONCE = '{"page": false}'
"""How the fake payment provider behaves unless PSP_BEHAVIOUR says otherwise (docs/payments.md)."""


class Command(BaseCommand):
    """Starts gunicorn, Celery and the fake payment provider; makes an account for the admin and a
    sale if there are none.
    """

    help = "Run the shop for development: web, tasks, payments, an administrator, a sale."

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
        with ExitStack() as cleanup:
            variables: dict[str, str] = {}
            psp = None
            if needs_fake_provider():
                psp = PaymentProvider(port=next_free(environment.PSP_PORT), back=f"{url}/")
                variables = payment_variables(psp.endpoint, url, environment.text("DATABASE_URL"))
                behaviour = environment.text("PSP_BEHAVIOUR") or PAID_AT_ONCE
                psp.variables = {**variables, "PSP_BEHAVIOUR": behaviour}
                cleanup.enter_context(provider_announced(psp.endpoint))
                self.stdout.write(f"Payments:  {psp.endpoint}/  (no money moves)")
            self.stdout.flush()  # also into a file or a pipe, before the processes say anything
            schedule = str(data_folder() / "beat-schedule")
            beat = ("--beat", "-s", schedule, "--loglevel", "WARNING")
            celery = Worker(environment.text("CELERY_BROKER_URL"), variables, options=beat)
            run_until_the_web_ends(Web(variables, port=port), celery, psp)


def needs_fake_provider() -> bool:
    """Whether the shop takes payments, and by no provider that the environment names."""
    ours = shop_environment.PROVIDERS["http"] == settings.PAYMENT_PROVIDER
    return ours and not environment.is_set("PSP_URL")


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


def run_until_the_web_ends(web: Server, celery: Server, psp: Server | None = None) -> None:
    """Start all, and start the others again when they end, until the web ends: a worker that loses
    its broker may end (kombu 5.7).

    Args:
        psp: the payment provider; None: another one serves.

    Raises:
        CommandError: the web ended by itself.
    """
    others = [server for server in (psp, celery) if server is not None]
    try:
        for server in (*others, web):
            server.on_terminal = True
            server.begin()
        while web.is_running:
            time.sleep(0.5)
            for server in others:
                if not server.is_running:
                    sys.stderr.write(f"{server.name} ended and is started again.\n")
                    server.kill()  # the children that it left
                    server.begin()
        raise CommandError("gunicorn ended.")
    finally:
        # The provider last: it answers what the others have asked.
        for server in (web, celery):
            server.ask_to_end()
        for server in (web, celery, *others):
            server.stop()
            server.remove()
