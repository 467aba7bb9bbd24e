"""`manage.py seed`: create the demo's catalogue and logins."""

import json
import time
from argparse import ArgumentParser
from dataclasses import asdict
from typing import Any

from django.core.management.base import BaseCommand

from lab.demo.data import LOGINS, RENEWAL, create_logins, fill_catalogue
from shop.catalogue.models import Sale


class Command(BaseCommand):
    """Create the demo's catalogue and logins."""

    help = "Create the demo's catalogue and logins. Safe to repeat."

    def add_arguments(self, parser: ArgumentParser) -> None:  # noqa: D102
        parser.add_argument("--json", action="store_true", help="print JSON")
        parser.add_argument("--stay", action="store_true", help="open new sales as others end")

    def handle(self, **options: Any) -> None:  # noqa: D102
        create_logins()
        sales = fill_catalogue()
        self._tell(sales, options)
        while options["stay"]:
            time.sleep(RENEWAL)
            fill_catalogue()

    def _tell(self, sales: list[Sale], options: dict[str, Any]) -> None:
        if options["json"]:
            listed = [{"sale": s.pk, "item": s.item_id, "product": s.product.name} for s in sales]
            logins = [asdict(login) for login in LOGINS]
            self.stdout.write(json.dumps({"logins": logins, "sales": listed}))
        elif options["verbosity"]:
            for sale in sales:
                self.stdout.write(f"Sale {sale.pk}: {sale}, from {sale.starts_at:%F %T} UTC")
            for login in LOGINS:
                self.stdout.write(f"Sign in as {login.role}: {login.username} / {login.password}")
