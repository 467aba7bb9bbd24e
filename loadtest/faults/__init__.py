"""Faults for a running shop: one file per family; `Chaos` draws and logs them.

They act only on the processes, ports and servers of a `Target`, and import nothing from the shop.
They use Linux's signals, file systems and clocks, and refuse to run elsewhere.
"""

from loadtest.faults.chaos import CONTAINER_FAULTS, FAULTS, Chaos, draw, find, left_out
from loadtest.faults.fault import Fault, FaultFailed, Target

__all__ = [
    "CONTAINER_FAULTS",
    "FAULTS",
    "Chaos",
    "Fault",
    "FaultFailed",
    "Target",
    "draw",
    "find",
    "left_out",
]
