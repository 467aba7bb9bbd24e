"""Locust's users at a shop that has an adapter: each plays one of its buyers after the other."""

from __future__ import annotations

from contextlib import suppress
from random import Random
from typing import Any

from loadtest.address import RunImpossible
from loadtest.client import Connection
from loadtest.history import Recorder
from loadtest.mix.behaviours import Behaviour
from loadtest.mix.buyers import ANSWER, LeftOut, MixBuyers, PacedBuyer
from loadtest.mix.plan import MixPlan
from loadtest.scenarios import choose
from loadtest.shopper import REACTION_TIME
from loadtest.users import Users


class AdapterUsers(Users):
    """The users of a run, all in one process: its adapter makes the buyers.

    Args:
        plan: of the run.
        address: of the shop.
        buyers: of the sale, which is open.
        behaviours: what they do, by weight.
        recorder: of the history.
        run: the run's name.
    """

    timeout = ANSWER

    def __init__(
        self,
        plan: MixPlan,
        address: tuple[str, int],
        buyers: MixBuyers,
        behaviours: dict[Behaviour, int],
        recorder: Recorder,
        opens_at: float,
        run: str,
    ) -> None:
        super().__init__(
            plan,
            address,
            rounds=plan.rounds,
            recorder=recorder,
            opens_at=opens_at,
            run=run,
        )
        self._buyers, self._behaviours = buyers, behaviours
        self._portion = plan.buyers

    def buyer(self, user: int, turn: int, connection: Connection) -> tuple[int, Connection]:
        """Return the number of a buyer whom nobody has played yet.

        Raises:
            RunImpossible: the shop makes no more; the verdict says so as well.
        """
        try:
            return self._buyers.next_number(self._portion), connection
        except RunImpossible as error:
            self._buyers.problems[str(error)] += 1
            raise

    def play(
        self,
        buyer: tuple[int, Connection],
        behaviour: Any,
        place: float,
        random: Random,
        due: int | None,
    ) -> None:
        """Let a buyer act; one for whom a step of the adapter fails does not go on."""
        number, connection = buyer
        paced = PacedBuyer(self._buyers, number, connection, due)
        if due is None:
            paced.sleep(random.random() * REACTION_TIME)
        act = choose(self._behaviours, {}, place)
        with suppress(LeftOut):
            act(paced, random)
