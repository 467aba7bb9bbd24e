"""A queue in the process: concurrent requests for one item wait together and one serves them all.

Flat combining (Hendler, Incze, Shavit, Tzafrir: "Flat combining and the
synchronization-parallelism tradeoff", SPAA 2010), applied to transactions. A request that finds no
leader becomes the leader. The leader drains the queue, serves the batch, hands the lead to the
next request in the queue, and then releases the answers. There is no thread to start or stop, and
an empty queue leaves nothing behind.

Works on threads and, after gevent's monkey patch, on greenlets.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Hashable, Sequence
from typing import Any, Generic
from weakref import WeakSet

from inventory.metrics import metrics
from inventory.outcomes import Answer, Busy, OutcomeUnknown, Request, Ticket, fail

Drain = Callable[[], Sequence[Ticket[Request, Answer]]]
Handler = Callable[[Hashable, Drain[Request, Answer]], None]


class _Waiting(Ticket[Request, Answer]):
    """A ticket that a thread waits for."""

    __slots__ = ("leads", "since", "turn")

    def __init__(self, request: Request) -> None:
        super().__init__(request)
        self.leads = False
        self.since = time.monotonic()
        # A bare lock is the cheapest object that one thread can wait on and another release.
        self.turn = threading.Lock()
        self.turn.acquire()


class _Queue(Generic[Request, Answer]):
    """The tickets that wait for one name; a queue has a leader as long as it exists."""

    __slots__ = ("name", "waiting")

    def __init__(self, name: Hashable) -> None:
        self.name = name
        self.waiting: deque[_Waiting[Request, Answer]] = deque()


class Combiner(Generic[Request, Answer]):
    """Collects concurrent calls of the same name and serves them together, in order of arrival.

    Args:
        handler: called by the leader with the queue's name and a function that drains the queue.
            The handler calls that function when it is ready to serve (the batch then contains
            every request that has arrived) and fills in the answers, which may be exceptions.
        max_batch: maximum requests per batch; bounds how long a transaction runs.
        max_waiting: maximum requests waiting per queue; further ones are refused at once.
        max_wait: seconds after which a waiting request is refused, once the running batch ends.
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
        self._queues: dict[Hashable, _Queue[Request, Answer]] = {}
        _combiners.add(self)

    def submit(self, name: Hashable, request: Request) -> Answer:
        """Queue a request and return its answer.

        Raises:
            Busy: the queue is full, or did not move in time; nothing was done.
            Exception: the handler's answer to this request.
        """
        ticket: _Waiting[Request, Answer] = _Waiting(request)
        with self._mutex:
            queue = self._queues.get(name)
            if queue is None:
                queue = self._queues[name] = _Queue(name)
                ticket.leads = True
            elif len(queue.waiting) >= self._max_waiting:
                raise Busy(f"{self._max_waiting} are waiting already")
            queue.waiting.append(ticket)
        if not ticket.leads:
            # No timeout, which would cost a timer per request: the leader answers the requests
            # that have waited too long.
            try:
                ticket.turn.acquire()
            except BaseException:
                # The thread is being ended while it waits (a greenlet can be).
                self._leave(queue, ticket)
                raise
        if ticket.leads:
            self._lead(queue, ticket)
        return ticket.result()  # type: ignore[return-value]  # the leader has filled it in

    def waiting(self, name: Hashable) -> int:
        """Return how many requests wait for a name now."""
        queue = self._queues.get(name)
        return len(queue.waiting) if queue else 0

    def all_waiting(self) -> int:
        """Return how many requests wait now, for all names."""
        return sum(len(queue.waiting) for queue in list(self._queues.values()))

    def _lead(self, queue: _Queue[Request, Answer], own: _Waiting[Request, Answer]) -> None:
        batch: list[_Waiting[Request, Answer]] = []

        def drain() -> Sequence[Ticket[Request, Answer]]:
            oldest = time.monotonic() - self._max_wait
            late: list[_Waiting[Request, Answer]] = []
            with self._mutex:
                while queue.waiting and len(batch) < self._max_batch:
                    ticket = queue.waiting.popleft()
                    in_time = ticket is own or ticket.since >= oldest
                    (batch if in_time else late).append(ticket)
            fail(late, Busy(f"the queue did not move for {self._max_wait} s"))
            self._release(late)
            return batch

        failure: BaseException | None = None
        try:
            self._handler(queue.name, drain)
        except Exception as error:  # noqa: BLE001  # answered to the whole batch
            failure = error
        except BaseException as error:
            # The leader is being ended in the middle of a batch that others wait for.
            failure = OutcomeUnknown("the leader was ended")
            failure.__cause__ = error
            raise
        finally:
            if not batch:
                # The handler failed before it drained: only the leader gets the error; the
                # next request leads its own attempt.
                with self._mutex:
                    queue.waiting.remove(own)
                batch.append(own)
            # Hand over first, so that the next batch starts while these answers go out.
            self._pass_on(queue)
            if failure is not None:
                fail(batch, failure)
            elif lost := [ticket for ticket in batch if ticket.answer is None]:
                fail(lost, OutcomeUnknown("the request was not answered"))
            self._release(batch)

    def _leave(self, queue: _Queue[Request, Answer], ticket: _Waiting[Request, Answer]) -> None:
        """Remove a ticket from its queue; hand the lead on if the ticket had just received it."""
        with self._mutex:
            if ticket in queue.waiting:
                queue.waiting.remove(ticket)
        if ticket.leads:
            self._pass_on(queue)

    def _pass_on(self, queue: _Queue[Request, Answer]) -> None:
        with self._mutex:
            if not queue.waiting:
                del self._queues[queue.name]
                return
            successor = queue.waiting[0]
            successor.leads = True
        successor.turn.release()

    @staticmethod
    def _release(batch: Sequence[_Waiting[Request, Answer]]) -> None:
        for ticket in batch:
            if not ticket.leads:
                ticket.turn.release()


_combiners: WeakSet[Combiner[Any, Any]] = WeakSet()
metrics.gauge("waiting", lambda: sum(each.all_waiting() for each in list(_combiners)))
