"""The queue in the process: requests for the same thing wait together, and one serves them all.

Flat combining (Hendler, Incze, Shavit, Tzafrir: "Flat combining and the
synchronization-parallelism tradeoff", SPAA 2010), applied to transactions: whoever finds the
line without a leader leads. The leader takes everybody who is waiting, serves them in one go,
passes the lead to the next in line, and only then are the answers out. No thread of its own,
nothing to start or stop, and nothing left behind when a line is empty.

It works on threads and, with gevent's monkey patch in place, on greenlets.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Hashable, Sequence
from typing import Generic, TypeVar

from inventory.outcomes import Busy, OutcomeUnknown

Request = TypeVar("Request")
Answer = TypeVar("Answer")

Take = Callable[[], Sequence[Request]]
Serve = Callable[[Hashable, Take[Request]], Sequence[Answer | Exception]]


class _Ticket(Generic[Request, Answer]):
    """One waiting request."""

    __slots__ = ("answer", "leads", "since", "turn", "wish")

    def __init__(self, wish: Request) -> None:
        self.wish = wish
        self.leads = False
        self.since = time.monotonic()
        self.answer: Answer | BaseException | None = None
        # A bare lock is the cheapest thing that one thread can wait on and another release.
        self.turn = threading.Lock()
        self.turn.acquire()


class _Line(Generic[Request, Answer]):
    """The tickets that wait for one thing; it has a leader for as long as it exists."""

    __slots__ = ("name", "waiting")

    def __init__(self, name: Hashable) -> None:
        self.name = name
        self.waiting: deque[_Ticket[Request, Answer]] = deque()


class Combiner(Generic[Request, Answer]):
    """Collects concurrent calls of the same name and serves them together, in order of arrival.

    Args:
        serve: called by the leader with the line's name and a function that takes the batch.
            It calls that function when it is ready to serve (everybody who has come until then
            is in), and returns one answer, or exception, for each wish, in order.
        max_batch: most wishes in one batch; bounds how long a transaction runs.
        max_waiting: most wishes waiting in one line; more are refused at once.
        max_wait: seconds after which a waiting wish is refused; the batch before it may add to
            them, and is itself bounded by whoever serves.
    """

    def __init__(
        self,
        serve: Serve[Request, Answer],
        *,
        max_batch: int,
        max_waiting: int,
        max_wait: float,
    ) -> None:
        self._serve = serve
        self._max_batch = max_batch
        self._max_waiting = max_waiting
        self._max_wait = max_wait
        self._mutex = threading.Lock()
        self._lines: dict[Hashable, _Line[Request, Answer]] = {}

    def submit(self, name: Hashable, wish: Request) -> Answer:
        """Queue a wish and return its answer.

        Raises:
            Busy: the line is full, or did not move in time; nothing was done.
            Exception: whatever ``serve`` answered for this wish.
        """
        ticket: _Ticket[Request, Answer] = _Ticket(wish)
        with self._mutex:
            line = self._lines.get(name)
            if line is None:
                line = self._lines[name] = _Line(name)
                ticket.leads = True
            elif len(line.waiting) >= self._max_waiting:
                raise Busy(f"{self._max_waiting} are waiting already")
            line.waiting.append(ticket)
        if not ticket.leads:
            # Without a time-out of its own, which would be a timer for each request: whoever
            # leads answers those that have waited too long.
            try:
                ticket.turn.acquire()
            except BaseException:
                # This thread is being ended while it waits (a greenlet can be).
                self._leave(line, ticket)
                raise
        if ticket.leads:
            self._lead(line, ticket)
        if isinstance(ticket.answer, BaseException):
            raise ticket.answer
        return ticket.answer  # type: ignore[return-value]  # set by whoever released the turn

    def waiting(self, name: Hashable) -> int:
        """How many wait in a line now."""
        line = self._lines.get(name)
        return len(line.waiting) if line else 0

    def _lead(self, line: _Line[Request, Answer], own: _Ticket[Request, Answer]) -> None:
        batch: list[_Ticket[Request, Answer]] = []

        def take() -> Sequence[Request]:
            oldest = time.monotonic() - self._max_wait
            late: list[_Ticket[Request, Answer]] = []
            with self._mutex:
                while line.waiting and len(batch) < self._max_batch:
                    ticket = line.waiting.popleft()
                    in_time = ticket is own or ticket.since >= oldest
                    (batch if in_time else late).append(ticket)
            self._deliver(late, (), Busy(f"the line did not move for {self._max_wait} s"))
            return [ticket.wish for ticket in batch]

        failure: BaseException | None = None
        answers: Sequence[Answer | Exception] = ()
        try:
            answers = self._serve(line.name, take)
        except Exception as error:  # noqa: BLE001  # it is answered to everybody in the batch
            failure = error
        except BaseException as error:
            # This thread is being ended in the middle of a batch that others wait for.
            failure = OutcomeUnknown("the leader was ended")
            failure.__cause__ = error
            raise
        finally:
            if not batch:
                # It failed before anything was taken: only the leader has its answer, the next
                # in line tries for itself.
                with self._mutex:
                    line.waiting.remove(own)
                batch.append(own)
                failure = failure or OutcomeUnknown("the line was not served")
            # First the lead, so that the next batch starts while these answers go out.
            self._pass_on(line)
            self._deliver(batch, answers, failure)

    def _leave(self, line: _Line[Request, Answer], ticket: _Ticket[Request, Answer]) -> None:
        """Take a wish out of its line, and hand the lead on if it had just been given that."""
        with self._mutex:
            if ticket in line.waiting:
                line.waiting.remove(ticket)
        if ticket.leads:
            self._pass_on(line)

    def _pass_on(self, line: _Line[Request, Answer]) -> None:
        with self._mutex:
            if not line.waiting:
                del self._lines[line.name]
                return
            heir = line.waiting[0]
            heir.leads = True
        heir.turn.release()

    @staticmethod
    def _deliver(
        batch: Sequence[_Ticket[Request, Answer]],
        answers: Sequence[Answer | Exception],
        failure: BaseException | None,
    ) -> None:
        if failure is None and len(answers) != len(batch):
            failure = OutcomeUnknown(f"{len(answers)} answers for {len(batch)} wishes")
        for position, ticket in enumerate(batch):
            ticket.answer = failure if failure is not None else answers[position]
            if not ticket.leads:
                ticket.turn.release()
