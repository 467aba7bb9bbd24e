"""The environment of processes whose clock a fault can step."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from shutil import which

LIBRARIES = ("lib/*/faketime/libfaketimeMT.so.1", "lib/faketime/libfaketimeMT.so.1")
"""Next to the folder of the program: of Debian's package, and of `make install`."""


@cache
def libfaketime() -> Path | None:
    """The library that steps a process's clock; None where `faketime` is not on the PATH."""
    program = which("faketime")
    if program is None:
        return None
    prefix = Path(program).resolve().parent.parent
    return next((path for each in LIBRARIES for path in prefix.glob(each)), None)


def under_clock(clock: Path) -> dict[str, str]:
    """The environment of a process whose clock is the system's plus what the file says."""
    return {
        "LD_PRELOAD": str(libfaketime()),
        "PYTHONPATH": str(Path(__file__).parent / "faketime"),
        "FAKETIME_TIMESTAMP_FILE": str(clock),
        # Read again every second; at each call would slow every call down.
        "FAKETIME_CACHE_DURATION": "1",
        # A stepped clock is the one that people set. The monotonic one never jumps.
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        "DONT_FAKE_MONOTONIC": "1",
    }
