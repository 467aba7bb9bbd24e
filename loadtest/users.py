"""What the users of one load-generating process share during one run."""

from __future__ import annotations

import os
import threading
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Sequence
from http import HTTPStatus
from itertools import count
from pathlib import Path
from random import Random
from typing import Any, Protocol

from loadtest.address import RunImpossible
from loadtest.calls import Report, Tally
from loadtest.client import Connection
from loadtest.files import MOST, leave_tokens
from loadtest.full_shop import Answer, FullShop, SaleUnusable
from loadtest.history import LATE, Recorder
from loadtest.purchases import Sale
from loadtest.run_plan import RunPlan
from loadtest.sale_roles import MAIN
from loadtest.scenarios import IMPATIENT, MIXES, Behaviour, choose
from loadtest.shop import Request
from loadtest.shopper import Crowd, Shopper

# Tokens fetched at once: few enough not to hold the shop up, enough to ask seldom.
TOKENS_AT_ONCE = 500
# A shop that is being broken or is busy answers nothing useful for a while: seconds until it is
# given up on, and between two tries.
PATIENCE = 60.0
PAUSE = 0.5
_runs = count(1)

# Buyers who begin per second, at most, in a sale that lasts. Users who follow each other without a
# pause saturate the machine, and a recovery from faults would be judged by the overload.
PACE = 30


# Steps from a buyer's place to the next user's and to the same user's next one. By these irrational
# steps the places lie evenly, however many there are: also few buyers of a mix play all its parts.
NEXT_USER, NEXT_TURN = 0.6180339887498949, 0.4142135623730951


class Tokens:
    """Buyers' tokens: those of a file, or asked for in portions as users need them.

    Args:
        shop: whose buyers they are.
        given: of accounts that are there already; None: the shop makes buyers.
    """

    def __init__(self, shop: FullShop, given: Sequence[str] | None = None) -> None:
        self._shop, self._makes_buyers = shop, given is None
        self._lock = threading.Lock()
        self._left = deque(given or ())

    def take(self) -> str:
        """A token that no other buyer has. Raises `RunImpossible` if there is none."""
        with self._lock:
            if not self._left:
                self._left.extend(self._fetch())
            return self._left.popleft()

    def _fetch(self) -> list[str]:
        if not self._makes_buyers:
            raise RunImpossible(
                "every account of the file with tokens has been used: buyers of this mix take "
                "others along, so name more accounts than users"
            )
        # Buyers whose tokens got lost do no harm, so that this may be asked again.
        wanted = self._shop.requests.buyers(TOKENS_AT_ONCE)
        answer = _ask_again(self._shop, wanted, timeout=60.0, was_there=True)
        if not answer.tokens:
            raise RunImpossible(
                f"the shop gives no buyers ({answer.status} {answer.code}); "
                f"{self._shop.makes_buyers}"
            )
        return answer.tokens


class Arrivals:
    """A Poisson process: gaps drawn from an exponential distribution, by a seed.

    As many buyers are drawn as are asked for. Each is played by a user that is free; if all are
    busy, the buyer starts late, which counts in their latency and in `late`.
    """

    def __init__(self, rate: float, random: Random, opens_at: float) -> None:
        """`rate` in buyers a second; `opens_at` on the monotonic clock, in seconds."""
        self.drawn = 0
        self.late = 0
        self._rate = rate
        self._random = random
        self._opens_at = opens_at
        self._next: float | None = None

    def wait(self) -> tuple[int, int]:
        """Wait until the next buyer is due: their number, and when that was in ns (monotonic)."""
        number, due = self.drawn, self._draw()
        left = due - time.monotonic()
        if left > 0:
            time.sleep(left)
        elif left < -LATE:
            self.late += 1
        return number, int(due * 1e9)

    def overdue(self, most: int | None) -> int:
        """How many more buyers would have come by now, of `most` (None: no bound). Draws on."""
        number, now = 0, time.monotonic()
        while (most is None or number < most) and self._draw() < now:
            number += 1
        return number

    def _draw(self) -> float:
        # The first one counts from the opening, or from when the first user is there for it.
        last = max(self._opens_at, time.monotonic()) if self._next is None else self._next
        self._next = last + self._random.expovariate(self._rate)
        self.drawn += 1
        return self._next


class Paced(Protocol):
    """What a plan says of how its buyers come."""

    @property
    def buyers(self) -> int:
        """At once, all processes together."""

    @property
    def seed(self) -> int:
        """Repeats their choices."""

    @property
    def arrivals(self) -> float:
        """Buyers per second of an open loop; 0: a closed loop."""


class Users(ABC):
    """The users of one process in a run: each plays one buyer after the other.

    Attributes:
        tally: of their purchases.
        everyone_is_here: set when all users have started.
    """

    def __init__(
        self,
        plan: Paced,
        address: tuple[str, int],
        *,
        worker: int = 0,
        workers: int = 1,
        rounds: int,
        recorder: Recorder | None,
        opens_at: float,
        run: str,
    ) -> None:
        """`worker` is this process's number among the `workers`, which share the plan's buyers.

        `rounds` are the buyers that each user plays; 0: without end. `recorder` is of the history;
        None: nothing is recorded. `opens_at` is on the monotonic clock, in seconds. `run` is the
        run's name.
        """
        # Users pace themselves in a sale that lasts, all processes together.
        self._pause = plan.buyers / PACE
        self.seed, self.worker, self.rounds = plan.seed, worker, rounds
        self.tally = Tally(run)
        self.everyone_is_here = threading.Event()
        self._users = count()
        self._users_begun = 0
        self._address = address
        self._recorder = recorder
        if recorder is not None:
            self.tally.history = str(recorder.path)
        self._arrivals: Arrivals | None = None
        if plan.arrivals:
            drawn = Random(f"{plan.seed}/{worker}/arrivals")
            self._arrivals = Arrivals(plan.arrivals / workers, drawn, opens_at)

    @abstractmethod
    def buyer(self, user: int, turn: int, connection: Connection) -> Any:
        """Return the next buyer of a user, before they are due."""

    @abstractmethod
    def play(
        self,
        buyer: Any,
        behaviour: Behaviour | None,
        place: float,
        random: Random,
        due: int | None,
    ) -> None:
        """Let a buyer act.

        Args:
            buyer: as `buyer` has made them.
            behaviour: theirs; None: the mix has one for each.
            place: from 0 to 1, by which the mix chooses.
            random: the source of their choices.
            due: when they come, in ns of the monotonic clock; None: in a closed loop, at once.
        """

    def live(self, behaviour: Behaviour | None) -> None:
        """Play one buyer after the other, as many as there are rounds (0: without end).

        Without a behaviour of theirs, the mix has one for each buyer, who arrives at a time of
        their own if the run is an open loop.
        """
        user, scheduled = next(self._users), behaviour is None
        pauses = Random(f"{self.seed}/{self.worker}/{user}/pauses")
        self._users_begun += scheduled
        connection = Connection(*self._address, timeout=self.timeout)
        try:
            for turn in count() if self.rounds == 0 else range(self.rounds):
                buyer = self.buyer(user, turn, connection)
                self.everyone_is_here.wait()
                due, random, place = self._arrival(user, turn, scheduled=scheduled)
                self.play(buyer, behaviour, place, random, due)
                if self.rounds == 0 and scheduled:
                    time.sleep(pauses.random() * 2 * self._pause)
        finally:
            connection.close()
        self.tally.finished += 1

    timeout = 10.0
    """Seconds for an answer."""

    def flush(self) -> None:
        """Bring the history on disk up to date."""
        if self._recorder is not None:
            self._recorder.flush()

    def close(self) -> None:
        """Count who was due and never began."""
        if self._arrivals is not None:
            left = self._users_begun * self.rounds - self._arrivals.drawn if self.rounds else None
            self.tally.unstarted = self._arrivals.overdue(left)
            self._arrivals = None

    def _arrival(
        self, user: int, turn: int, *, scheduled: bool
    ) -> tuple[int | None, Random, float]:
        """Wait for the next buyer: when they are due, the source of their choices, their place."""
        place, due = f"{user}/{turn}", None
        steps = user * NEXT_USER + turn * NEXT_TURN
        if self._arrivals is not None and scheduled:
            number, due = self._arrivals.wait()
            self.tally.late = self._arrivals.late
            # Any free user plays the next buyer; the choices belong to the buyer.
            place = f"arrival/{number}"
            steps = number * NEXT_USER
        first = Random(f"{self.seed}/{self.worker}").random()
        return due, Random(f"{self.seed}/{self.worker}/{place}"), (first + steps) % 1.0


class Shoppers(Users):
    """Users who come to a shop with all levels: its sales, buyers' tokens, the history."""

    def __init__(
        self,
        shop: FullShop,
        plan: RunPlan,
        *,
        weights: dict[str, int],
        history: str,
        report: Report,
        tokens: Sequence[str] | None = None,
        **more: Any,
    ) -> None:
        """`history` is a folder; empty: nothing is recorded. `more` are arguments of `Users`.

        `tokens` are those of all accounts of the run; None: the shop makes its buyers.
        """
        self.sale = find_sale(shop, plan.sale)
        others = {role: find_sale(shop, sale) for role, sale in plan.further_sales.items()}
        own = tokens and share_of(tokens, more["worker"], more["workers"])
        self._name = f"{os.getpid()}.{next(_runs)}"
        recorder = Recorder(Path(history) / f"{self._name}.jsonl") if history else None
        opens_at = self.sale.opens_at
        super().__init__(plan, shop.address, recorder=recorder, opens_at=opens_at, **more)
        self._mix, self._weights = MIXES[plan.mix], weights
        self._tokens = Tokens(shop, own)
        self._tokens_of: dict[str, str] = {}
        self._crowd = Crowd(
            shop,
            {MAIN: self.sale, **others},
            recorder,
            self._take_token,
            self.tally.counting(report),
        )

    def buyer(self, user: int, turn: int, connection: Connection) -> Shopper:
        """Return a buyer with a token."""
        return Shopper(self._crowd, f"{self._name}.{user}.{turn}", connection)

    def play(
        self,
        buyer: Shopper,
        behaviour: Behaviour | None,
        place: float,
        random: Random,
        due: int | None,
    ) -> None:
        """Let a buyer act once the sale is open."""
        buyer.due = due
        act = behaviour or choose(self._mix, self._weights, place)
        if act not in IMPATIENT:
            buyer.wait_for_opening(random)
        act(buyer, random)

    def close(self) -> None:
        """Close the history."""
        super().close()
        if self._recorder is not None:
            self._recorder.close()
            leave_tokens(self._recorder.path, self._tokens_of)

    def _take_token(self, name: str) -> str:
        token = self._tokens.take()
        if self._recorder is not None and len(self._tokens_of) < MOST:
            self._tokens_of[name] = token
        return token


def share_of(tokens: Sequence[str], worker: int, workers: int) -> Sequence[str]:
    """Return the tokens of one process, none of which another one has. Raises `RunImpossible`."""
    if not 0 <= worker < workers:
        raise RunImpossible(
            f"this is load-generating process {worker + 1} of {workers}: one has left and came "
            "again. Start all of them anew, so that no two act for the same account."
        )
    return tokens[worker::workers]


def read_tokens(path: str) -> list[str]:
    """Read the tokens of accounts, one a line. Raises `RunImpossible`."""
    try:
        found = Path(path).read_text().split()
    except (OSError, ValueError) as error:
        raise RunImpossible(f"the tokens of the shop's accounts cannot be read: {error}") from error
    if len(set(found)) < len(found):
        raise RunImpossible(f"{path} names an account twice")
    return found


def look_at(shop: FullShop, sale: str) -> Answer:
    """Ask the shop about the sale."""
    return _ask_again(shop, shop.requests.look(sale))


def find_sale(shop: FullShop, sale: str) -> Sale:
    """Ask the shop about the sale. Raises `RunImpossible` if there is none to be loaded."""
    answer = look_at(shop, sale)
    answered = time.monotonic()
    if answer.status != 200:
        missing = answer.status == HTTPStatus.NOT_FOUND
        problem = "there is no sale" if missing else "the shop does not show sale"
        raise RunImpossible(f"{problem} {sale!r} ({answer.status} {answer.code})")
    try:
        return shop.sale_of(sale, answer, answered=answered)
    except SaleUnusable as error:
        raise RunImpossible(str(error)) from error


def _ask_again(
    shop: FullShop, request: Request, timeout: float = 10.0, *, was_there: bool = False
) -> Answer:
    """Ask until there is an answer that says something, or `PATIENCE` is over.

    Args:
        shop: that is asked.
        request: that may be made again.
        timeout: seconds for each answer.
        was_there: the shop has answered before, so that it will come back if it does not now.
    """
    give_up = time.monotonic() + PATIENCE
    while True:
        connection = Connection(*shop.address, timeout=timeout)
        try:
            reply = connection.request(request, shop.requests.headers("", body=True))
        finally:
            connection.close()
        answer = shop.nothing(reply) if isinstance(reply, str) else shop.understand(reply)
        may_change = answer.status >= 500 or (was_there and not answer.status)
        if not may_change or time.monotonic() > give_up:
            return answer
        time.sleep(PAUSE)
