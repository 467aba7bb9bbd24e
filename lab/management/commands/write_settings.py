"""`manage.py write_settings`: bring the tables of docs/settings.md up to date."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from django.core.management.base import BaseCommand

from lab.environment import PROJECT
from lab.environment import VARIABLES as LAB_VARIABLES
from shop.environment import VARIABLES as SHOP_VARIABLES
from shop.environment import Variable

PAGE = PROJECT / "docs" / "settings.md"
HEAD = "| variable | default | meaning |\n|---|---|---|\n"
TABLES = {"shop": SHOP_VARIABLES, "lab": LAB_VARIABLES}


def table(variables: Iterable[Variable]) -> str:
    """Return environment variables as a table of Markdown, one row each."""
    rows = []
    for variable in variables:
        default = f"`{variable.default}`" if variable.default else ""
        rows.append(f"| `{variable.name}` | {default} | {variable.meaning} |\n")
    return HEAD + "".join(rows)


def rewrite(page: str) -> str:
    """Return the page with its tables brought up to date.

    Args:
        page: Markdown, with `<!-- NAME -->` and `<!-- /NAME -->` around each table of `TABLES`.
    """
    for name, variables in TABLES.items():
        begin, end = f"<!-- {name} -->\n", f"<!-- /{name} -->\n"
        before, _, rest = page.partition(begin)
        _, _, after = rest.partition(end)
        page = before + begin + table(variables) + end + after
    return page


class Command(BaseCommand):
    """Writes docs/settings.md."""

    help = "Write the table of all environment variables into docs/settings.md."
    requires_system_checks: list[str] = []

    def handle(self, *args: Any, **options: Any) -> None:
        """Rewrite the page."""
        PAGE.write_text(rewrite(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
