"""Synthetic buyers of a flash sale: `locust -f loadtest/locustfile.py --host http://127.0.0.1:8000`.

`--mix` chooses which buyers come: `loadtest/scenarios` has the mixes and what each buyer does.
`attach` adds the choice of the sale, the history, the Correctness tab and the verdict. Another shop
is loaded and judged through its adapter: `--shop path.to:Adapter` (`loadtest/shop.py`), by a rush
or by `--mix buyers`.
"""

from __future__ import annotations

import sys
from pathlib import Path

from locust import User, constant, events, task

# Locust imports this file by its path, from any folder.
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from loadtest.address import RunImpossible
from loadtest.locust_events import Session, attach
from loadtest.scenarios import Behaviour, browse

attach(events)


class Buyer(User):
    """A user who plays one buyer after the other.

    Attributes:
        behaviour: of each buyer; None: the mix has one for each.
    """

    # A user who has finished stays idle, so that the number of users does not fall.
    wait_time = constant(10**6)

    behaviour: Behaviour | None = None

    @task
    def live(self) -> None:
        """Play as many buyers as the run has rounds, without end for 0 rounds."""
        session: Session = self.environment.session
        try:
            session.running.live(self.behaviour)
        except RunImpossible as error:
            session.give_up(error)


class Visitor(Buyer):
    """Visitors who load pages, with every mix in a sale that goes on until it is stopped."""

    behaviour = staticmethod(browse)


class Rusher(User):
    """A buyer of a shop that has an adapter: the rush acts for all at one moment (`RushRun`)."""

    wait_time = constant(10**6)

    @task
    def wait(self) -> None:
        """Send nothing."""
