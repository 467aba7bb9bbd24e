"""Inject faults until the input ends: `python -m loadtest.ui.breaker TARGET SALE SEED LOG NAME…`.

A separate process, because faults wait for servers in ways that would block Locust's page. When
Locust dies, the input ends too, and the last fault is healed.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

from loadtest.faults import Chaos, Target


def main(target: str, sale: str, seed: str, log: str, *names: str) -> None:
    """Inject these faults in turn, by a seed; return when the last one is healed."""
    broken = replace(Target.read(Path(target)), sale=int(sale))
    chaos = Chaos(names, broken, int(seed), Path(log))
    chaos.start()
    try:
        sys.stdin.read()
    finally:
        chaos.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
