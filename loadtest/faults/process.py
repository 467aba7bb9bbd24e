"""The faults of a run that is started from the page.

`python -m loadtest.faults.process TARGET SALE SEED LOG NAME…` injects them until its input ends.
That is a separate process, because faults wait for servers in ways that would block Locust's page.
When Locust dies, the input ends too, and the last fault is healed.
"""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

from loadtest.faults import FAULTS, Chaos, Target, left_out

NONE, ALL = "none", "all"

# Seconds to wait until the last fault is healed.
_HEALING = 120


def offered(target: str) -> list[str]:
    """Return the choices of the start form: faults possible on this target; none without one."""
    try:
        there = Target.read(Path(target)).has() if target else None
    except (OSError, ValueError, TypeError):
        there = None
    if there is None or not sys.platform.startswith("linux"):
        return []
    lacking = left_out(FAULTS, there)
    return [NONE, ALL, *(name for name in FAULTS if name not in lacking)]


def chosen(fault: str, target: str) -> tuple[str, ...]:
    """Return the faults that a choice of the start form stands for."""
    if fault == NONE:
        return ()
    if fault != ALL:
        return (fault,)
    return tuple(name for name in offered(target) if name not in (NONE, ALL))


def start(
    faults: tuple[str, ...], target: str, sale: str, seed: int, log: Path
) -> subprocess.Popen[bytes]:
    """Inject faults during one run, from a separate process, which is returned.

    Args:
        faults: their names.
        target: file that describes what they act on.
        sale: what they may aim at.
        seed: repeats the draw of the faults.
        log: of what was injected.
    """
    given = (target, sale, str(seed), str(log), *faults)
    return subprocess.Popen(
        [sys.executable, "-m", "loadtest.faults.process", *given],
        cwd=Path(__file__).resolve().parents[2],
        stdin=subprocess.PIPE,
    )


def stop(injecting: subprocess.Popen[bytes]) -> str:
    """Heal the last fault; return the error, empty on success."""
    assert injecting.stdin is not None
    injecting.stdin.close()
    try:
        code = injecting.wait(_HEALING)
    except subprocess.TimeoutExpired:
        injecting.kill()
        return f"the last fault was not healed within {_HEALING} s"
    return f"the faults ended with an error ({code})" if code else ""


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
