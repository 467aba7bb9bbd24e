"""The end of a proof's load: every process serves again, and nothing is owed."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from django.db import Error

from inventory.selling.commit import forget_connection
from lab.proof import snapshot
from lab.stack.stack import Stack
from loadtest.steps import Books

READY = 90
"""Seconds for everything to come up again before the final read."""


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


def books(sales: Sequence[int]) -> Books | None:
    """Look at what is pending for these sales; None if the database does not say."""
    try:
        return Books(snapshot.owed(sales), ())
    except Error:
        forget_connection()
        return None
