"""The cost of being watched: purchases without metrics, with metrics and JSON logs, with traces."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib.util import find_spec

from lab import environment
from lab.bench.cpu import CpuClock
from lab.bench.sold import Sold, sell
from lab.bench.targets import BUYERS
from lab.demo.buyers import create_synthetic_buyers
from lab.stack.stack import Stack
from loadtest import open_files

PLAIN = "nothing"
METRICS = "metrics and JSON logs"
TRACES = "and one request in a hundred traced"


def shops(collector: str) -> dict[str, dict[str, str]]:
    """Return the environment variables of each shop, by name.

    Args:
        collector: address for OTLP; without OpenTelemetry there is no shop with traces.
    """
    found = {
        PLAIN: {
            "DJANGO_SETTINGS_MODULE": "lab.bench.unobserved",
            "METRICS_FOLDER": "",
            "LOG_FORMAT": "line",
        },
        METRICS: {"LOG_FORMAT": "json"},
    }
    if find_spec("opentelemetry"):
        found[TRACES] = {
            **found[METRICS],
            "OTEL_TRACES_EXPORTER": "otlp",
            "OTEL_EXPORTER_OTLP_ENDPOINT": collector,
        }
    return found


def compare(
    stacks: Mapping[str, Stack],
    *,
    connections: int,
    seconds: float,
    rounds: int,
    tell: Callable[[str], None],
) -> dict[str, list[Sold]]:
    """Sell unlimited stock in every shop, round after round.

    Args:
        stacks: the shops of `shops`, each with a web server; idle ones do not affect the others.
        connections: of buyers.
        seconds: of each sample.
        rounds: samples of each shop.
        tell: called with progress messages.
    """
    open_files.raise_limit()
    buyers = create_synthetic_buyers(BUYERS)
    clocks = {name: CpuClock(stack) for name, stack in stacks.items()}
    sold: dict[str, list[Sold]] = {name: [] for name in stacks}
    for turn in range(rounds):
        # The order alternates, because the database grows.
        for name in list(stacks)[:: -1 if turn % 2 else 1]:
            tell(f"Round {turn + 1} of {rounds}: {name} …")
            sample = sell(
                stacks[name], clocks[name], buyers, connections=connections, seconds=seconds
            )
            sold[name].append(sample)
    return sold


@contextmanager
def collector() -> Iterator[str]:
    """Start a process that takes traces; yields its address."""
    with subprocess.Popen(
        [sys.executable, "-m", "lab.bench.collector"],
        cwd=environment.PROJECT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            yield f"http://127.0.0.1:{process.stdout.readline().strip()}"
        finally:
            process.stdin.close()
