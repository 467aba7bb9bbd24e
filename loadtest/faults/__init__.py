"""Faults for a running shop: one file a family, drawn and logged by `Chaos`.

They act on processes, ports and servers that a `Target` describes and on nothing else, and import
nothing of the shop. Signals, file systems and clocks are Linux's own: elsewhere they refuse.
"""

from loadtest.faults.catalogue import FAULTS, left_out
from loadtest.faults.chaos import Chaos, Injected, draw
from loadtest.faults.fault import Fault, FaultFailed
from loadtest.faults.target import Target

__all__ = ["FAULTS", "Chaos", "Fault", "FaultFailed", "Injected", "Target", "draw", "left_out"]
