"""`manage.py export_metrics`: serve the metrics of all processes to Prometheus."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from prometheus_client import start_http_server

from shop import environment
from shop.operating import exporter


class Command(BaseCommand):
    """Serve `/metrics` until a signal ends it."""

    help = "Serve the metrics of all processes of METRICS_FOLDER to Prometheus."
    requires_system_checks = ()

    def add_arguments(self, parser: CommandParser) -> None:  # noqa: D102
        parser.add_argument("--bind", default="127.0.0.1", help="address to listen on")
        parser.add_argument(
            "--port", type=int, default=environment.number("METRICS_PORT"), help="port"
        )

    def handle(self, *args: Any, bind: str, port: int, **options: Any) -> None:
        """Serve."""
        try:
            server, thread = start_http_server(port, bind, exporter.registry())
        except (OSError, OverflowError) as error:  # the port is taken, or there is none such
            raise CommandError(
                f"cannot listen on {environment.authority(bind, port)}: {error}"
            ) from error
        self.stdout.write(f"http://{environment.authority(bind, server.server_port)}/metrics")
        thread.join()
