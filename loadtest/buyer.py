"""The user class that every mix of buyers extends."""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Any

from locust import User, constant, task

from loadtest.address import RunImpossible
from loadtest.scenarios import IMPATIENT, choose
from loadtest.session import Session
from loadtest.shopper import Shopper


class Buyer(User):
    """A user who plays one buyer after the other.

    Attributes:
        tasks: the behaviours of the mix (`loadtest.scenarios`), each with its weight.
        scheduled: whether its buyers arrive at times of their own in an open loop.
    """

    abstract = True
    # A user who has finished stays idle, so that the number of users does not fall.
    wait_time = constant(10**6)

    tasks: Any
    scheduled = True

    def __init__(self, environment: Any) -> None:
        super().__init__(environment)
        # Locust draws from `tasks` by its own random generator. Runs have to be repeatable, so
        # `act` draws by the run's seed instead.
        self._weights = Counter(each.__name__ for each in self.tasks)
        self._behaviours = {each.__name__: each for each in self.tasks}
        self.tasks = [type(self).live]

    def live(self) -> None:
        """Play as many buyers as the run has rounds, without end for 0 rounds."""
        session = Session.of(self.environment)
        try:
            session.running.live(self.act, scheduled=self.scheduled)
        except RunImpossible as error:
            session.give_up(error)

    def act(self, shopper: Shopper, random: Random, place: float) -> None:
        """Play one buyer: choose a behaviour by weight and carry it out."""
        weights = Session.of(self.environment).running.weights
        name = choose(self._weights, weights, place)
        if name not in IMPATIENT:
            shopper.wait_for_opening(random)
        self._behaviours[name](shopper, random)


class Rusher(User):
    """A user who stands for one of the buyers of a rush, which acts for all at one moment."""

    abstract = True
    wait_time = constant(10**6)

    @task
    def wait(self) -> None:
        """Send nothing (`RushRun`)."""
