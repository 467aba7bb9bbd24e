"""`manage.py walk`: show which files each request goes through."""

from __future__ import annotations

from argparse import ArgumentParser
from contextlib import ExitStack
from typing import Any

from django.conf import settings
from django.core.management import call_command
from django.core.management.base import BaseCommand, CommandError
from rich import box
from rich.console import Console
from rich.table import Table

from development import StackError
from development.embedded import ServerUrls
from development.leftovers import private_folder
from lab.stack.stack import Stack
from lab.walk import Caller, Walk, WalkFailed


class Command(BaseCommand):
    """Walk the requests."""

    help = (
        "Make a purchase, a payment, a refund, a cancellation, an expiry and a webhook with warm "
        "caches; print the files of shop/, serving/, inventory/ and locking/ in the order in which "
        "each request enters them first, with the calls of their functions."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:  # noqa: D102
        parser.add_argument("--only", metavar="REQUEST", help="print only this request")

    def handle(self, **options: Any) -> None:  # noqa: D102
        call_command("migrate", verbosity=0)
        try:
            walks = _walks()
        except (WalkFailed, StackError, OSError) as error:
            raise CommandError(str(error), returncode=2) from error
        names = [walk.request for walk in walks]
        if (only := options["only"]) and only not in names:
            raise CommandError(f"there is no request {only!r}; there are {', '.join(names)}")
        shown = [walk for walk in walks if only in {None, walk.request}]
        console = Console()
        for walk in shown:
            console.print(_table(walk))


def _walks() -> list[Walk]:
    with ExitStack() as exits:
        folder = exits.enter_context(private_folder())
        stack = exits.enter_context(Stack(folder, ServerUrls.of_environment()))
        stack.start("psp")
        settings.PSP_URL = stack.psp_url
        return Caller().all()


def _table(walk: Walk) -> Table:
    title = f"{walk.request}: {len(walk.calls)} files, {walk.calls.total()} calls"
    title = f"{title}, {walk.moves} moves"
    table = Table(
        title=title, title_justify="left", box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False
    )
    table.add_column("file")
    table.add_column("calls", justify="right")
    for file, calls in walk.calls.items():
        table.add_row(file, str(calls))
    return table
