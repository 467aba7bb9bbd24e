"""``manage.py scaling``: measure purchases, fit the model, check it, and run it further."""

from __future__ import annotations

import json
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.core.management import call_command
from django.core.management.base import BaseCommand
from rich.console import Console

from lab import environment
from lab.bench import show
from lab.bench.run import machine
from lab.bench.scaling import report
from lab.bench.scaling.fit import check, fit
from lab.bench.scaling.measure import SETUPS, Point, measure
from lab.stack.embedded import ServerUrls

RESULT = environment.PROJECT / "docs" / "scaling.json"


class Command(BaseCommand):
    """Measure and model."""

    help = "Measure purchases, fit a model of them, check the model on other points."

    def add_arguments(self, parser: ArgumentParser) -> None:  # noqa: D102
        parser.add_argument("--seconds", type=float, default=3.0, help="of each point (3)")
        parser.add_argument("--rounds", type=int, default=3, help="of which the best counts (3)")
        parser.add_argument("--json", type=Path, default=RESULT, help="the points' file")
        parser.add_argument(
            "--redraw", action="store_true", help="measure nothing: use the points of that file"
        )

    def handle(self, **options: Any) -> None:  # noqa: D102
        console = Console()
        if not options["redraw"]:
            call_command("migrate", verbosity=0)
            urls = ServerUrls.of_environment()
            with console.status("") as status:
                points = measure(urls, SETUPS, options["seconds"], options["rounds"], status.update)
            document = {"points": [each.to_json() for each in points], "machine": machine()}
            options["json"].write_text(json.dumps(document, indent=1) + "\n")
        document = json.loads(options["json"].read_text())
        points = [Point.from_json(each) for each in document["points"]]
        cores = document["machine"]["cores"]
        with console.status("Fitting …"):
            costs = fit(points, cores)
            checked = check(costs, points, cores)
        console.print(costs)
        for table in (report.checked_table(checked), report.lock_table(costs)):
            console.print(*show.from_markdown(table), "", sep="\n")
        console.print(f"One node: {report.node_capacity(costs):,.0f} purchases per second.")
        with console.status("Simulating up to 100 nodes …"):
            found = report.series(costs)
        console.print(*show.from_markdown(report.series_tables(found)), sep="\n")
        options["json"].with_suffix(".svg").write_text(report.chart(found))
