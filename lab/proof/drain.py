"""The end of a proof's load: every process serves again, and nothing is owed."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from django.db import Error

from inventory.selling.commit import forget_connection
from lab.proof import snapshot
from lab.stack.stack import Stack
from loadtest import orchestrator
from loadtest.orchestrator import Books

READY = 90
"""Seconds for everything to come up again before the final read."""

LOOK = 0.5
"""Seconds between two looks at what is owed."""


def restart(stack: Stack, tell: Callable[[str], None]) -> None:
    """Wait until every process serves, and none still works on requests of the run.

    Raises:
        StackError: one does not come up again.
    """
    # The buyers were stopped in the middle of their calls. A web process may still be working on
    # one, which would take effect after the final read.
    for name in stack.web_nodes:
        stack.supervisor.stop_program(name)
        stack.supervisor.start_program(name)
    for name in stack.without_load:
        tell(f"waiting for {name}")
        stack.wait_until_ready(name, READY)


def drain(sales: Sequence[int], seconds: float, tell: Callable[[float, int], None]) -> bool:
    """Wait until nothing is owed for these sales, for so many seconds at most: whether it is so.

    Args:
        tell: called with the seconds so far and what is owed; -1 if the database does not say.
    """

    def look(since: float) -> Books | None:
        try:
            books = Books(snapshot.owed(sales), ())
        except Error:
            forget_connection()
            books = None
        tell(since, books.owed if books else -1)
        return books

    return orchestrator.drain(look, seconds, LOOK)
