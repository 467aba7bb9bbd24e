"""The command: ``python -m lab.bench.locks``, or ``manage.py bench_locks``."""

from __future__ import annotations

import json
import os
import shlex
import sys
from argparse import ArgumentParser, Namespace
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path

from lab.bench.locks import measure, report
from lab.bench.locks.contenders import CEILING, CONTENDERS, OURS


def add_arguments(parser: ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("--processes", default="1,8,32", help="numbers of processes (1,8,32)")
    parser.add_argument("--locks", help=f"comma-separated; all: {'; '.join(CONTENDERS)}")
    parser.add_argument("--rounds", type=int, default=5, help="interleaved rounds (5)")
    parser.add_argument("--seconds", type=float, default=1.0, help="s of each run (1.0)")
    parser.add_argument(
        "--json", nargs="?", const="-", metavar="FILE", help="write JSON, to stdout by default"
    )
    parser.add_argument(
        "--docs", type=Path, metavar="FOLDER", help="write the page, the chart and the JSON there"
    )
    parser.add_argument("--url", help="measure on this server, not on an embedded Valkey")
    parser.add_argument(
        "--bed",
        choices=["sentinel", "cluster"],
        help="measure our locks on the Redis servers of a test bed (docs/beds.md)",
    )


def run(options: Namespace) -> None:
    """Measure, print the table, and write the requested files."""
    if options.bed and (options.url or options.docs):
        raise SystemExit("--bed has servers of its own, and its figures are not those of the page")
    with ExitStack() as running:
        url = _of_bed(options.bed, running) if options.bed else options.url or _embedded(running)
        result = _measured(options, url)
    print(report.table(result), file=sys.stderr if options.json == "-" else sys.stdout)
    text = json.dumps(result, indent=1) + "\n"
    if options.json == "-":
        print(text, end="")
    elif options.json:
        Path(options.json).write_text(text)
    if options.docs:
        _write(options.docs, result, text, options)


def _chosen(words: str | None, *, only_ours: bool) -> list[str]:
    if words is None:
        return [name for name in CONTENDERS if not only_ours or name.startswith(OURS)]
    # A name with a comma is chosen by the part before the comma.
    wanted = {word.strip() for word in words.split(",")}
    unknown = wanted - {name.partition(",")[0] for name in CONTENDERS} - set(CONTENDERS)
    if unknown:
        raise SystemExit(f"no such lock: {', '.join(sorted(unknown))}; see --help for the names")
    return [name for name in CONTENDERS if name.partition(",")[0] in wanted]


def _embedded(running: ExitStack) -> str:
    # The benchmark is a development tool, so it uses the servers of the tests.
    from locking.tests.servers import Valkey

    server = Valkey()
    running.enter_context(server)
    return server.endpoint


def _of_bed(name: str, running: ExitStack) -> str:
    # Imported here: a bed needs more packages than the benchmark.
    from lab.bed.bed import started

    return running.enter_context(started(name)).urls.redis


def _measured(options: Namespace, url: str) -> report.Result:
    processes = sorted({int(many) for many in options.processes.split(",")})
    # The others take no URL of Sentinels or of a cluster.
    locks = _chosen(options.locks, only_ours=bool(options.bed))
    found = measure.compare(url, locks, processes, options.rounds, options.seconds, _tell)
    rows = [asdict(row) for row in found]
    recovery = {}
    for contender in locks:
        if contender != CEILING:
            _tell(f"killing the holder: {contender}")
            recovery[contender] = round(measure.recovery(contender, url), 3)
    return {
        "rows": rows,
        "recovery": recovery,
        "lease_s": measure.RECOVERY_LEASE,
        "ratios": report.ratios(rows),
        "rounds": options.rounds,
        "seconds": options.seconds,
        "machine": measure.machine(url),
    }


def _tell(message: str) -> None:
    if sys.stderr.isatty() or os.environ.get("CI"):
        print(message, file=sys.stderr)


def _write(folder: Path, result: report.Result, text: str, options: Namespace) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    words = [f"--rounds {options.rounds} --seconds {options.seconds:g}"]
    words += [f"--processes {shlex.quote(options.processes)} --docs {shlex.quote(str(folder))}"]
    command = f'make bench-locks ARGS="{" ".join(words)}"'
    (folder / "bench-locks.json").write_text(text)
    (folder / "bench-locks.svg").write_text(report.chart(result))
    (folder / "bench-locks.md").write_text(report.page(result, command))


def main() -> None:
    """Run as a program."""
    parser = ArgumentParser(prog="python -m lab.bench.locks", description=__doc__)
    add_arguments(parser)
    run(parser.parse_args())
