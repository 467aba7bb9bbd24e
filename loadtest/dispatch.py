"""Which users Locust starts: those of the chosen mix, and visitors where the sale goes on."""

from __future__ import annotations

from argparse import Namespace

from locust import User
from locust.dispatch import UsersDispatcher

from loadtest.shops import OURS

# One user in this many is a visitor, up to the most of them per load-generating process. Pages are
# judged after faults as the API is, whatever the mix.
USERS_PER_VISITOR = 4
MAX_VISITORS = 4
VISITOR = "visitor"
# The users of a shop that is rushed by its adapter.
ADAPTED = "adapted"


class MixDispatcher(UsersDispatcher):
    """Starts users of the class that is named like the chosen mix.

    Args:
        options: the parsed options; the page changes them between runs.
        worker_nodes, user_classes: as Locust passes them.
    """

    def __init__(
        self, options: Namespace, worker_nodes: list, user_classes: list[type[User]]
    ) -> None:
        super().__init__(worker_nodes, user_classes)
        self._options = options
        self._by_name = {each.__name__.lower(): each for each in user_classes}
        self._processes = max(1, len(worker_nodes))

    def new_dispatch(
        self,
        target_user_count: int,
        spawn_rate: float,
        user_classes: list[type[User]] | None = None,
    ) -> None:
        """Start a ramp-up of the mix's users; `user_classes` of a load shape win over the mix."""
        mix = self._options.mix if self._options.shop == OURS else ADAPTED
        chosen = user_classes or [self._by_name[mix]]
        if user_classes is None and mix != ADAPTED and goes_on(self._options):
            visitor = self._by_name[VISITOR]
            wanted = -(-target_user_count // USERS_PER_VISITOR)
            visitor.fixed_count = min(wanted, MAX_VISITORS * self._processes)
            if visitor.fixed_count:
                chosen = [*chosen, visitor]
        super().new_dispatch(target_user_count, spawn_rate, chosen)


def goes_on(options: Namespace) -> bool:
    """Whether buyers keep arriving until the run is stopped: a fault run, or 0 rounds."""
    return bool(getattr(options, "endless", False)) or int(options.rounds) == 0
