"""Report the deaths of a supervisor's processes and of their workers, once each."""

from __future__ import annotations

from collections.abc import Iterator

import psutil

from lab.stack.supervisor import ProcessState, Supervisor

# The children of these processes are workers, which live until they are killed. PostgreSQL's
# children are connections, which come and go.
WITH_WORKERS = {"psp", "web", "celery"}


class Watch:
    """Compares a supervisor's processes with the previous poll.

    A process that died and restarted has a new pid, so no death is missed in between.
    """

    def __init__(self, supervisor: Supervisor) -> None:
        self.supervisor = supervisor
        self._states = {state.name: state for state in supervisor.states()}
        self._workers = {name: _workers(state) for name, state in self._states.items()}

    def news(self) -> Iterator[str]:
        """Yield a text per process that died or came back since the previous call.

        Raises:
            StackError: supervisord does not answer.
        """
        for now in self.supervisor.states():
            before, self._states[now.name] = self._states[now.name], now
            workers_before, self._workers[now.name] = self._workers[now.name], _workers(now)
            if before.pid and before.pid != now.pid:
                yield self._obituary(f"{now.name} (pid {before.pid}) died", now.name)
            elif dead := workers_before - self._workers[now.name]:
                pids = ", ".join(map(str, sorted(dead)))
                yield self._obituary(f"{now.name}: worker {pids} died", now.name)
            if now.state == "RUNNING" and (before.state, before.pid) != (now.state, now.pid):
                yield f"{now.name} is running again (pid {now.pid})."
            if now.state == "FATAL" and before.state != "FATAL":
                yield self._obituary(f"{now.name} no longer starts", now.name)

    def _obituary(self, what: str, name: str) -> str:
        log = self.supervisor.log_tail(name)
        indented = "\n".join(f"    {line}" for line in log.splitlines())
        return f"{what}. Its last log lines ({self.supervisor.log_file(name)}):\n{indented}"


def _workers(state: ProcessState) -> set[int]:
    if state.name not in WITH_WORKERS or not state.pid:
        return set()
    try:
        children = psutil.Process(state.pid).children()
        return {child.pid for child in children if child.status() != psutil.STATUS_ZOMBIE}
    except psutil.NoSuchProcess:
        return set()
