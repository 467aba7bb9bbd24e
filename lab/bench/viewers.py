"""The cost of the control room: purchases per second with and without its viewers, in turns."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from urllib.parse import urlencode

import psutil

from lab import environment
from lab.bench.cpu import CpuClock
from lab.bench.recording import Recorded
from lab.bench.sold import sell
from lab.bench.targets import BUYERS
from lab.demo.buyers import create_synthetic_buyers
from lab.room import tokens
from lab.stack.stack import Stack
from loadtest import open_files


def compare(
    stack: Stack,
    *,
    viewers: int,
    connections: int,
    seconds: float,
    rounds: int,
    tell: Callable[[str], None],
) -> tuple[Recorded, Recorded]:
    """Sell unlimited stock, round after round; "on" is with viewers.

    Returns purchases per second, and microseconds of CPU time per purchase of web processes,
    database, Redis and room together, which are steadier on a machine that others use as well.

    Args:
        stack: with a web server and the room's process, which runs in both.
        viewers: open streams.
        connections: of buyers.
        seconds: of each sample.
        rounds: samples of each kind.
        tell: called with progress messages.
    """
    open_files.raise_limit()
    buyers = create_synthetic_buyers(BUYERS)
    rates, costs = Recorded(), Recorded()
    clock = CpuClock(stack)
    room = psutil.Process(stack.supervisor.state("room").pid)
    for turn in range(rounds):
        # The order alternates, because the database grows.
        for on in (True, False) if turn % 2 else (False, True):
            watching = viewers if on else 0
            tell(f"Round {turn + 1} of {rounds}: {watching} viewers, {connections} connections …")
            with watched(stack.room_url, watching):
                own = sum(room.cpu_times()[:2])
                sold = sell(stack, clock, buyers, connections=connections, seconds=seconds)
                own = sum(room.cpu_times()[:2]) - own
            (rates.on if on else rates.off).append(sold.rate)
            cost = sold.cpu.total + 1e6 * own / max(sold.accepted, 1)
            (costs.on if on else costs.off).append(round(cost, 1))
    return rates, costs


@contextmanager
def watched(url: str, viewers: int) -> Iterator[None]:
    """Keep so many streams open, read by a process of their own: browsers are none of the shop's.

    Raises:
        RuntimeError: a stream cannot be opened.
    """
    stream = f"{url}/stream?{urlencode({'token': tokens.issue('bench')})}"
    command = [sys.executable, "-m", "lab.bench.streams", *[stream] * viewers]
    with subprocess.Popen(
        command, cwd=environment.PROJECT, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            if process.stdout.readline() != b"watching\n":
                raise RuntimeError("a stream of the control room could not be opened")
            yield
        finally:
            process.stdin.close()
