"""P1 to P21, one file a group; each property is a function from the evidence to a finding."""

from __future__ import annotations

from collections.abc import Callable

from loadtest.checker.evidence import Evidence
from loadtest.checker.properties.carts import all_or_nothing
from loadtest.checker.properties.charges import at_most_one_charge
from loadtest.checker.properties.contract import contract
from loadtest.checker.properties.delivery import delivery
from loadtest.checker.properties.fencing import fencing
from loadtest.checker.properties.follow_up import follow_up_complete
from loadtest.checker.properties.hold import hold
from loadtest.checker.properties.orders import no_duplicate, no_lost_order, no_phantom_order
from loadtest.checker.properties.price import price
from loadtest.checker.properties.privacy import privacy
from loadtest.checker.properties.recovery import recovery
from loadtest.checker.properties.refusals import no_phantom_rejection, real_time_order
from loadtest.checker.properties.stock import bounds, conservation, no_oversell
from loadtest.checker.properties.truth import true_answers
from loadtest.checker.properties.vacuity import not_vacuous
from loadtest.checker.properties.window import window
from loadtest.checker.verdict import Finding

PROPERTIES: dict[str, Callable[[Evidence], Finding]] = {
    "P1": no_oversell,
    "P2": conservation,
    "P3": no_lost_order,
    "P4": no_phantom_order,
    "P5": no_duplicate,
    "P6": bounds,
    "P7": no_phantom_rejection,
    "P8": real_time_order,
    "P9": fencing,
    "P10": follow_up_complete,
    "P11": at_most_one_charge,
    "P12": recovery,
    "P13": not_vacuous,
    "P14": price,
    "P15": window,
    "P16": hold,
    "P17": all_or_nothing,
    "P18": privacy,
    "P19": delivery,
    "P20": true_answers,
    "P21": contract,
}
