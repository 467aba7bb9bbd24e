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
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic
from weakref import WeakSet

from inventory.metrics import metrics
from inventory.outcomes import AnswerT, Busy, OutcomeUnknown, RequestT, Ticket, fail


@dataclass(slots=True, eq=False)
class _Line(Generic[RequestT, AnswerT]):
    """The requests that wait for one name; a line has a leader as long as it exists."""

    name: Hashable
    waiting: deque[Turn[RequestT, AnswerT]] = field(default_factory=deque)


class Turn(Ticket[RequestT, AnswerT]):
    """A request in the queue. If it leads, it serves its batch inside a `with` block.

    The block calls `drain` when it is ready to serve (the batch then contains every request that
    has arrived) and fills in the answers, which may be exceptions. An exception that leaves the
    block is the answer to the whole batch.

    Attributes:
        leads: whether it has to serve a batch; otherwise it has been answered.
        since: of the monotonic clock: when it came.
        woken: locked while its thread waits.
    """

    __slots__ = ("_batch", "_line", "_queue", "leads", "since", "woken")

    def __init__(
        self,
        queue: CombiningQueue[RequestT, AnswerT],
        line: _Line[RequestT, AnswerT],
        request: RequestT,
    ) -> None:
        super().__init__(request)
        self._queue, self._line = queue, line
        self._batch: list[Turn[RequestT, AnswerT]] = []
        self.leads = False
        self.since = time.monotonic()
        # A bare lock is the cheapest object that one thread can wait on and another release.
        self.woken = threading.Lock()
        self.woken.acquire()

    def result(self) -> AnswerT:
        """Return the answer, or raise it; its leader has filled it in."""
        if isinstance(self.answer, BaseException):
            raise self.answer
        return self.answer  # type: ignore[return-value]

    def wait(self) -> None:
        """Wait until it is answered or leads."""
        # No timeout, which would cost a timer per request: the leader answers the requests that
        # have waited too long.
        try:
            self.woken.acquire()
        except BaseException:
            # The thread is being ended while it waits (a greenlet can be).
            self._leave()
            raise

    def __enter__(self) -> None:
        pass

    def drain(self) -> Sequence[Ticket[RequestT, AnswerT]]:
        """Take the requests that wait into the batch; return the batch."""
        queue, waiting, batch = self._queue, self._line.waiting, self._batch
        oldest = time.monotonic() - queue.max_wait
        late: list[Turn[RequestT, AnswerT]] = []
        with queue.mutex:
            while waiting and len(batch) < queue.max_batch:
                turn = waiting.popleft()
                in_time = turn is self or turn.since >= oldest
                (batch if in_time else late).append(turn)
        if late:
            fail(late, Busy(f"the queue did not move for {queue.max_wait} s"))
            _release(late)
        return batch

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> bool:
        batch = self._batch
        if not batch:
            # The leader failed before it drained: only it gets the error; the next request leads
            # its own attempt.
            with self._queue.mutex:
                self._line.waiting.remove(self)
            batch.append(self)
        # Hand over first, so that the next batch starts while these answers go out.
        self._pass_on()
        if isinstance(error, Exception):
            fail(batch, error)
        elif error is not None:
            # The leader is being ended in the middle of a batch that others wait for.
            ended = OutcomeUnknown("the leader was ended")
            ended.__cause__ = error
            fail(batch, ended)
        elif lost := [turn for turn in batch if turn.answer is None]:
            fail(lost, OutcomeUnknown("the request was not answered"))
        _release(batch)
        return isinstance(error, Exception)

    def _leave(self) -> None:
        """Remove it from its line; hand the lead on if it had just received it."""
        with self._queue.mutex:
            if self in self._line.waiting:
                self._line.waiting.remove(self)
        if self.leads:
            self._pass_on()

    def _pass_on(self) -> None:
        line = self._line
        with self._queue.mutex:
            if not line.waiting:
                del self._queue.lines[line.name]
                return
            successor = line.waiting[0]
            successor.leads = True
        successor.woken.release()


def _release(batch: Sequence[Turn[Any, Any]]) -> None:
    for turn in batch:
        if not turn.leads:
            turn.woken.release()


class CombiningQueue(Generic[RequestT, AnswerT]):
    """Lets concurrent requests of the same name be served together, in order of arrival::

        turn = queue.enter(name, request)
        if turn.leads:
            with turn:
                ...  # answer each of turn.drain()
        return turn.result()

    Args:
        max_batch: maximum requests per batch; bounds how long a transaction runs.
        max_waiting: maximum requests waiting per name; further ones are refused at once.
        max_wait: seconds after which a waiting request is refused, once the running batch ends.
        counted: whether its requests are purchases, which the gauge `waiting` counts.
    """

    def __init__(
        self, *, max_batch: int, max_waiting: int, max_wait: float, counted: bool = True
    ) -> None:
        self.max_batch = max_batch
        self.max_waiting = max_waiting
        self.max_wait = max_wait
        self.mutex = threading.Lock()
        self.lines: dict[Hashable, _Line[RequestT, AnswerT]] = {}
        if counted:
            _queues.add(self)

    def enter(self, name: Hashable, request: RequestT) -> Turn[RequestT, AnswerT]:
        """Queue a request; return when it is answered or leads.

        Raises:
            Busy: too many are waiting; nothing was done.
        """
        with self.mutex:
            line = self.lines.get(name)
            leads = line is None
            if line is None:
                line = self.lines[name] = _Line(name)
            elif len(line.waiting) >= self.max_waiting:
                raise Busy(f"{self.max_waiting} are waiting already")
            turn = Turn(self, line, request)
            turn.leads = leads
            line.waiting.append(turn)
        if not leads:
            turn.wait()
        return turn

    def waiting(self, name: Hashable) -> int:
        """Return how many requests wait for a name now."""
        line = self.lines.get(name)
        return len(line.waiting) if line else 0

    def all_waiting(self) -> int:
        """Return how many requests wait now, for all names."""
        return sum(len(line.waiting) for line in list(self.lines.values()))


_queues: WeakSet[CombiningQueue[Any, Any]] = WeakSet()
metrics.gauge("waiting", lambda: sum(queue.all_waiting() for queue in list(_queues)))
