"""`manage.py bench_locks`: compare the Redis lock with those of other libraries."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import asdict
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from rich.console import Console

from lab.bench import report
from lab.bench.contenders import CEILING, CONTENDERS
from lab.bench.locks import LOCKS, RECOVERY_LEASE, compare, recovery, server


class Command(BaseCommand):
    """Measure speed, fairness and waits of locks that use Redis."""

    help = "Compare the Redis lock with redis-py, python-redis-lock, pottery and portalocker."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: CommandParser) -> None:  # noqa: D102
        report.add_arguments(parser, seconds=1, rounds=5)
        parser.add_argument("--processes", default="1,8,32", help="numbers of processes (1,8,32)")
        parser.add_argument("--locks", help=f"comma-separated; all: {'; '.join(CONTENDERS)}")
        parser.add_argument("--url", help="measure on this server, not on an embedded Valkey")

    def handle(self, **options: Any) -> None:  # noqa: D102
        report.finish(LOCKS, options, lambda: _measured(options))


def _measured(options: Mapping[str, Any]) -> dict[str, Any]:
    processes = sorted({int(many) for many in options["processes"].split(",")})
    locks = _chosen(options["locks"])
    with ExitStack() as running, Console(stderr=True).status("") as status:
        url = _url(options, running)
        found = compare(url, locks, processes, options["rounds"], options["seconds"], status.update)
        after_kill = {}
        for contender in locks:
            if contender != CEILING:
                status.update(f"Killing the holder: {contender} …")
                after_kill[contender] = round(recovery(contender, url), 3)
        return {
            "rows": [asdict(row) for row in found],
            "recovery": after_kill,
            "lease_s": RECOVERY_LEASE,
            "machine": report.machine(redis=server(url)),
        }


def _chosen(words: str | None) -> list[str]:
    if words is None:
        return list(CONTENDERS)
    # A name with a comma is chosen by the part before the comma.
    wanted = {word.strip() for word in words.split(",")}
    unknown = wanted - {name.partition(",")[0] for name in CONTENDERS} - set(CONTENDERS)
    if unknown:
        raise CommandError(f"no such lock: {', '.join(sorted(unknown))}; see --help for the names")
    return [name for name in CONTENDERS if name.partition(",")[0] in wanted]


def _url(options: Mapping[str, Any], running: ExitStack) -> str:
    if options["url"]:
        return str(options["url"])
    # Imported here: the benchmark uses the tests' servers.
    from development.servers import Valkey

    server = Valkey()
    running.enter_context(server)
    return server.endpoint
