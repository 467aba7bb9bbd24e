"""Configured misbehaviour of the demo's payment provider during a run."""

from __future__ import annotations

from typing import Any

import urllib3
from django.conf import settings
from urllib3.exceptions import HTTPError

from development.errors import StackError

TIMEOUT = 10.0
"""Seconds for an answer, which the configured delay is part of."""


def misbehave(url: str, **behaviour: Any) -> None:
    """Let the payment provider misbehave from now on; see ``lab/psp/behaviour.py``.

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
