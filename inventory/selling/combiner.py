"""The queue in the process: requests for the same thing wait together, and one serves them all.

Flat combining (Hendler, Incze, Shavit, Tzafrir: "Flat combining and the
synchronization-parallelism tradeoff", SPAA 2010), applied to transactions: a request
that finds the line without a leader leads. The leader drains the line, serves all of it in one go,
passes the lead to the next in line, and only then are the answers out. No thread of its own,
nothing to start or stop, and nothing left behind when a line is empty.

It works on threads and, with gevent's monkey patch in place, on greenlets.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Hashable, Sequence
from typing import Generic

from inventory.outcomes import Answer, Busy, OutcomeUnknown, Request, Ticket, fail

Drain = Callable[[], Sequence[Ticket[Request, Answer]]]
Handler = Callable[[Hashable, Drain[Request, Answer]], None]


class _Waiting(Ticket[Request, Answer]):
    """A ticket that a thread waits with."""

    __slots__ = ("leads", "since", "turn")

    def __init__(self, request: Request) -> None:
        super().__init__(request)
        self.leads = False
        self.since = time.monotonic()
        # A bare lock is the cheapest thing that one thread can wait on and another release.
        self.turn = threading.Lock()
        self.turn.acquire()


class _Line(Generic[Request, Answer]):
    """The tickets that wait for one thing; it has a leader for as long as it exists."""

    __slots__ = ("name", "waiting")

    def __init__(self, name: Hashable) -> None:
        self.name = name
        self.waiting: deque[_Waiting[Request, Answer]] = deque()


class Combiner(Generic[Request, Answer]):
    """Collects concurrent calls of the same name and serves them together, in order of arrival.

    Args:
        handler: called by the leader with the line's name and a function that drains the line.
            It calls that function when it is ready to serve (every request that has come until
            then is in) and fills in the answer of each ticket, which may be an exception.
        max_batch: most requests in one batch; bounds how long a transaction runs.
        max_waiting: most requests waiting in one line; more are refused at once.
        max_wait: seconds after which a waiting request is refused; the batch before it may add
            to them, and is itself bounded by the handler.
    """

    def __init__(
        self,
        handler: Handler[Request, Answer],
        *,
        max_batch: int,
        max_waiting: int,
        max_wait: float,
    ) -> None:
        self._handler = handler
        self._max_batch = max_batch
        self._max_waiting = max_waiting
        self._max_wait = max_wait
        self._mutex = threading.Lock()
        self._lines: dict[Hashable, _Line[Request, Answer]] = {}

    def submit(self, name: Hashable, request: Request) -> Answer:
        """Queue a request and return its answer.

        Raises:
            Busy: the line is full, or did not move in time; nothing was done.
            Exception: whatever the handler answered to this request.
        """
        ticket: _Waiting[Request, Answer] = _Waiting(request)
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
        return ticket.result()  # type: ignore[return-value]  # the leader has filled it in

    def waiting(self, name: Hashable) -> int:
        """How many wait in a line now."""
        line = self._lines.get(name)
        return len(line.waiting) if line else 0

    def _lead(self, line: _Line[Request, Answer], own: _Waiting[Request, Answer]) -> None:
        batch: list[_Waiting[Request, Answer]] = []

        def drain() -> Sequence[Ticket[Request, Answer]]:
            oldest = time.monotonic() - self._max_wait
            late: list[_Waiting[Request, Answer]] = []
            with self._mutex:
                while line.waiting and len(batch) < self._max_batch:
                    ticket = line.waiting.popleft()
                    in_time = ticket is own or ticket.since >= oldest
                    (batch if in_time else late).append(ticket)
            fail(late, Busy(f"the line did not move for {self._max_wait} s"))
            self._release(late)
            return batch

        failure: BaseException | None = None
        try:
            self._handler(line.name, drain)
        except Exception as error:  # noqa: BLE001  # it is answered to the whole batch
            failure = error
        except BaseException as error:
            # This thread is being ended in the middle of a batch that others wait for.
            failure = OutcomeUnknown("the leader was ended")
            failure.__cause__ = error
            raise
        finally:
            if not batch:
                # It failed before anything was drained: only the leader has its answer, the next
                # in line tries for itself.
                with self._mutex:
                    line.waiting.remove(own)
                batch.append(own)
            # First the lead, so that the next batch starts while these answers go out.
            self._pass_on(line)
            if failure is not None:
                fail(batch, failure)
            elif lost := [ticket for ticket in batch if ticket.answer is None]:
                fail(lost, OutcomeUnknown("the request was not answered"))
            self._release(batch)

    def _leave(self, line: _Line[Request, Answer], ticket: _Waiting[Request, Answer]) -> None:
        """Take a ticket out of its line, and hand the lead on if it had just been given that."""
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
    def _release(batch: Sequence[_Waiting[Request, Answer]]) -> None:
        for ticket in batch:
            if not ticket.leads:
                ticket.turn.release()
