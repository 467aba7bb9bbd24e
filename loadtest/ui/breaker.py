"""Breaks the shop until its input ends: `python -m loadtest.ui.breaker TARGET SALE SEED LOG NAME…`.

A process of its own: faults wait for servers in ways in which Locust's page would stand still. When
Locust dies, the input ends too, and what is broken is healed.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

from loadtest.faults import Chaos, Target


def main(target: str, sale: str, seed: str, log: str, *names: str) -> None:
    """Inject these faults by turns, by a seed; returns when the last one is healed."""
    broken = replace(Target.read(Path(target)), sale=int(sale))
    chaos = Chaos(names, broken, int(seed), Path(log))
    chaos.start()
    try:
        sys.stdin.read()
    finally:
        chaos.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
