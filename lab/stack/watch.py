"""Report the deaths of a supervisor's processes and of their workers, once each."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import psutil

from development.supervisor import ProcessState, Supervisor

# The children of these processes are workers, which live until they are killed. PostgreSQL's
# children are connections, which come and go.
WITH_WORKERS = {"psp", "web", "celery"}


class News(NamedTuple):
    """What became of a process.

    Attributes:
        text: one line; more if a process no longer starts.
        good: it runs again.
    """

    text: str
    good: bool = False


class Watch:
    """Compares a supervisor's processes with the previous poll.

    A process that died and restarted has a new pid, so no death is missed in between.
    """

    def __init__(self, supervisor: Supervisor) -> None:
        self.supervisor = supervisor
        self._states = {state.name: state for state in supervisor.states()}
        self._workers = {name: _workers(state) for name, state in self._states.items()}

    def news(self) -> Iterator[News]:
        """Yield what became of processes since the previous call.

        Raises:
            StackError: supervisord does not answer.
        """
        for now in self.supervisor.states():
            before, self._states[now.name] = self._states[now.name], now
            workers_before, self._workers[now.name] = self._workers[now.name], _workers(now)
            if before.pid and before.pid != now.pid:
                yield self._died(f"{now.name} (pid {before.pid})", now.name)
            elif dead := workers_before - self._workers[now.name]:
                pids = ", ".join(map(str, sorted(dead)))
                yield self._died(f"{now.name}: worker {pids}", now.name)
            if now.state == "RUNNING" and (before.state, before.pid) != (now.state, now.pid):
                yield News(f"{now.name} is running again (pid {now.pid})", good=True)
            if now.state == "FATAL" and before.state != "FATAL":
                log = self.supervisor.log_tail(now.name)
                yield News("\n    ".join([f"{now.name} no longer starts:", *log.splitlines()]))

    def _died(self, who: str, name: str) -> News:
        return News(f"{who} died; its log: {self.supervisor.log_file(name)}")


def _workers(state: ProcessState) -> set[int]:
    if state.name not in WITH_WORKERS or not state.pid:
        return set()
    try:
        children = psutil.Process(state.pid).children()
        return {child.pid for child in children if child.status() != psutil.STATUS_ZOMBIE}
    except psutil.NoSuchProcess:
        return set()
