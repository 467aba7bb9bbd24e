"""`make soak`: repeat proofs under all faults, each with another seed, until the minutes are over.

Each round is `manage.py prove` on servers of its own, which prints the verdict and the command that
repeats it. The first round that is not passed ends the loop with its exit code.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from random import Random

ROUND = 4.0
"""Minutes of load in a round, at most."""

STRATEGIES = ("combining", "combining", "combining", "guard", "row_lock")
"""Those that keep every promise under every fault. Buyers of `redis_lock` wait for the lease of a
holder that died, which P12 calls too long."""

MIXES = ("rush", "rush", "doubles", "carts", "all")
"""Mixes in which keys are sent again, as P13 wants it."""


def main() -> int:
    """Run the loop; return the exit code of the last round."""
    parser = argparse.ArgumentParser(prog="make soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=60.0, help="in all (60)")
    parser.add_argument("--seed", type=int, default=time.time_ns() % 2**31, help="of all rounds")
    options = parser.parse_args()
    if not 0 < options.minutes < float("inf"):
        parser.error("--minutes must be above 0")
    random = Random(options.seed)
    ends = time.monotonic() + 60 * options.minutes
    print(f"Soaking for {options.minutes:g} min with seed {options.seed}.", flush=True)
    code = 0
    while code == 0 and time.monotonic() < ends:
        words = f"--faults all --minutes {min(ROUND, options.minutes):g}"
        words += f" --strategy {random.choice(STRATEGIES)} --mix {random.choice(MIXES)}"
        words += f" --buyers {random.randint(30, 90)} --stock {random.randint(20, 80)}"
        words += f" --limit {random.randint(1, 3)} --seed {random.randrange(1, 2**31)}"
        print(f'make prove ARGS="{words}"', flush=True)
        command = [sys.executable, "manage.py", "prove", *words.split()]
        code = subprocess.run(command, check=False).returncode
    return code


if __name__ == "__main__":
    sys.exit(main())
