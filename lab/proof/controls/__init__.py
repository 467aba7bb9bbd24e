"""Negative controls: the same proof with one thing switched off, which must turn its property red.

A checker that has never failed has proved nothing. What is switched off here is a strategy's care,
a line of defence, a constraint, a promise of the database or a step of the product; in the proof's
own private database and its own processes only. The first run has everything on and must pass, or
the others mean nothing.
"""

from lab.proof.controls.catalogue import CONTROLS, QUICK
from lab.proof.controls.control import Control
from lab.proof.controls.running import Outcome, run

__all__ = ["CONTROLS", "QUICK", "Control", "Outcome", "run"]
