"""What a proof asks of the shop's processes: to misbehave and to restart."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import urllib3
from django.conf import settings
from urllib3.exceptions import HTTPError

from development.errors import StackError
from lab.stack.stack import Stack
from loadtest.steps import RunPlan

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


PAYING = frozenset({"holds", "parts", "walkers", "all"})
"""Mixes in which the payment provider misbehaves."""

PROVIDER: Mapping[str, Any] = {
    "processing": 250,
    "decline": 0.1,
    "lost": 0.05,
    "copies": 2,
    "shuffle": 400,
}
"""It takes its time, declines some, answers some not at all, repeats and shuffles its events."""


def behaviour_for(plan: RunPlan) -> Mapping[str, Any]:
    """How the payment provider misbehaves; not at all while faults break the shop."""
    return {} if plan.faults or plan.mix not in PAYING else {**PROVIDER, "seed": plan.seed}


TIMEOUT = 10.0
"""Seconds for an answer, which the configured delay is part of."""


def misbehave(url: str, **behaviour: Any) -> None:
    """Let the payment provider misbehave from now on; see ``lab/psp/books.py``.

    A healthy shop bears everything but `bounce`: a refund that the provider refuses for good waits
    for a person, so that money stays owed.

    Args:
        url: of the provider.
        behaviour: by field; what is not named is as the provider's environment has it. So without
            any it behaves again.

    Raises:
        StackError: it does not answer, or knows no such behaviour.
    """
    try:
        answer = urllib3.request(
            *("POST", f"{url}/v1/behaviour"),
            json=behaviour,
            headers={"Authorization": f"Bearer {settings.PSP_KEY}", "Connection": "close"},
            timeout=TIMEOUT,
        )
    except HTTPError as error:
        raise StackError(f"The payment provider does not answer: {error}") from error
    if answer.status != 200:
        said = answer.data.decode(errors="replace")
        raise StackError(f"The payment provider refuses {behaviour}: {said}")
