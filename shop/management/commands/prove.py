"""``manage.py prove``: a sale under load, judged."""

from __future__ import annotations

import json
import os
import random
import sys
import tempfile
from argparse import ArgumentParser
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management import call_command
from django.core.management.base import BaseCommand, CommandError
from rich.console import Console
from rich.live import Live

from inventory.strategies import CLASSES, DEFAULT
from loadtest.scenarios import MIXES
from shop import environment
from shop.proof import show
from shop.proof.load import Crowd, LoadFailed
from shop.proof.proof import Plan, Proof, Result
from shop.stack import entry
from shop.stack.embedded import ServerUrls
from shop.stack.errors import StackError
from shop.stack.private import private_folder
from shop.stack.stack import Stack

EXIT_CODES = {"pass": 0, "fail": 1, "unknown": 2}


def at_least_one(text: str) -> int:
    """Read a count.

    Raises:
        ValueError: it is not a whole number of at least 1.
    """
    number = int(text)
    if number < 1:
        raise ValueError(text)
    return number


class Command(BaseCommand):
    """Prove that nothing is oversold, lost or doubled."""

    help = (
        "Hold a sale for a crowd of buyers who write down what they were told, then compare every "
        "answer with the database. Exit code: 0 proved, 1 a property is broken, 2 could not be "
        "judged."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:  # noqa: D102
        parser.add_argument("--buyers", type=at_least_one, default=2000, help="at once (2000)")
        parser.add_argument("--stock", type=at_least_one, default=100, help="units (100)")
        parser.add_argument("--limit", type=at_least_one, default=1, help="units a buyer (1)")
        parser.add_argument("--strategy", choices=list(CLASSES), default=DEFAULT)
        parser.add_argument("--mix", choices=list(MIXES), default="rush", help="who comes (rush)")
        parser.add_argument("--seed", type=int, default=0, help="repeats a run; 0 draws one")
        parser.add_argument(
            "--processes", type=at_least_one, default=1, help="load-generating processes (1)"
        )
        parser.add_argument("--json", type=Path, metavar="FILE", help="write the result as JSON")
        parser.add_argument(
            "--jsonl", type=Path, metavar="FOLDER", help="keep history and snapshots there"
        )

    def handle(self, **options: Any) -> None:  # noqa: D102
        if not settings.DEMO:
            raise CommandError(
                "A proof fills the shop with synthetic buyers and orders. Against servers of your "
                "own say that you mean it: SHOP_DEMO=1."
            )
        seed = options["seed"] or random.SystemRandom().randrange(1, 2**31)
        crowd = Crowd(options["buyers"], options["mix"], seed, options["processes"])
        plan = Plan(crowd, options["stock"], options["limit"], options["strategy"])
        repeat = _repeat(plan)
        console = Console()
        try:
            with _folder(options["jsonl"]) as folder, _shop(console) as url:
                result = _prove(console, plan, url, folder)
        except (LoadFailed, StackError, OSError) as error:
            result = Result(0, None, 0.0, str(error))
        show.result(console, plan, result, repeat)
        if options["json"]:
            document = json.dumps(result.to_json(plan, repeat), indent=2)
            options["json"].write_text(document + "\n")
        sys.exit(EXIT_CODES[result.outcome])


def _prove(console: Console, plan: Plan, url: str, folder: Path) -> Result:
    with Live(console=console, transient=True, refresh_per_second=4) as live:
        proof = Proof(plan, url, folder, lambda now: live.update(show.progress(plan, now)))
        return proof.run()


@contextmanager
def _shop(console: Console) -> Iterator[str]:
    """The address of a shop: the demo's that asked for this proof, or one started for it."""
    if url := os.environ.get("SHOP_URL"):
        yield url
        return
    call_command("migrate", verbosity=0)
    urls = ServerUrls(*(environment.text(name) for name in entry.SERVER_VARIABLES))
    with private_folder() as folder, Stack(folder, urls) as stack:
        with console.status("Starting the shop …"):
            stack.start("psp", "celery", "beat", "web")
        settings.PSP_URL = stack.psp_url
        yield stack.url


@contextmanager
def _folder(wanted: Path | None) -> Iterator[Path]:
    if wanted is None:
        with tempfile.TemporaryDirectory(prefix="proof-") as name:
            yield Path(name)
        return
    if wanted.exists() and any(wanted.iterdir()):
        raise CommandError(f"{wanted} is not empty: it holds another run's history")
    wanted.mkdir(parents=True, exist_ok=True)
    yield wanted


def _repeat(plan: Plan) -> str:
    arguments = (
        f"--buyers {plan.crowd.buyers} --stock {plan.stock} --limit {plan.limit} "
        f"--strategy {plan.strategy} --mix {plan.crowd.mix} --seed {plan.crowd.seed}"
    )
    return f'make prove ARGS="{arguments}"'
