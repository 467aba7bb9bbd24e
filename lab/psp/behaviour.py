"""Configured misbehaviour of the provider, for tests of the shop.

What happens by chance is drawn from the seed and from what it happens to, not from the order in
which requests come: a run with the same orders and the same seed has the same mishaps.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass, fields
from typing import Any

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured

from lab.psp.models import FaultConfiguration


@dataclass(frozen=True, slots=True)
class Behaviour:
    """Rates are from 0 to 1, times in ms. The default is a provider without fault.

    Attributes:
        seed: of what happens by chance.
        delay: before every answer.
        processing: captures and refunds are decided only after so long; 0: at once.
        decline: share of captures that fail.
        bounce: share of refunds that fail.
        lost: share of answers that never arrive, though what was asked has been done.
        copies: how often each webhook is delivered.
        shuffle: webhooks are sent after a wait of up to so long, each its own.
        webhook_url: where they go; empty: nobody is told.
    """

    seed: int = 0
    delay: int = 0
    processing: int = 0
    decline: float = 0.0
    bounce: float = 0.0
    lost: float = 0.0
    copies: int = 1
    shuffle: int = 0
    webhook_url: str = ""

    def strikes(self, rate: float, *what: object) -> bool:
        """Decide whether a fault of rate `rate` hits `what`."""
        return self.draw(*what) < rate

    def draw(self, *what: object) -> float:
        """Return a number in [0, 1) that is always the same for the same input."""
        text = "/".join(map(str, (self.seed, *what)))
        return int.from_bytes(hashlib.sha256(text.encode()).digest()[:6]) / 2**48


_TYPES = {
    field.name: {"int": int, "float": float, "str": str}[str(field.type)]
    for field in fields(Behaviour)
}
_current: list[Behaviour] = []


def current() -> Behaviour:
    """Return the current behaviour."""
    if not _current:  # one process serves, so what it remembers is what holds
        row = FaultConfiguration.objects.filter(pk=1).first()
        _current[:] = [_with(row.settings if row else {})]
    return _current[0]


def change(values: dict[str, Any]) -> Behaviour:
    """Change the behaviour; fields that are not named return to their defaults.

    Raises:
        ValueError: something is unknown, or of the wrong type.
    """
    behaviour = _with(values)
    # What was not asked for is not kept: the shop's address is another after a restart.
    FaultConfiguration.objects.update_or_create(pk=1, defaults={"settings": values})
    _current[:] = [behaviour]
    return behaviour


def default() -> Behaviour:
    """Return the behaviour that the environment configures.

    Raises:
        ImproperlyConfigured: it cannot be understood.
    """
    try:
        values = json.loads(settings.PSP_BEHAVIOUR or "{}")
        return parsed({"webhook_url": settings.PSP_WEBHOOK_URL, **values})
    except (ValueError, TypeError) as error:
        raise ImproperlyConfigured(f"PSP_BEHAVIOUR: {error}") from error


def _with(values: dict[str, Any]) -> Behaviour:
    return parsed({**asdict(default()), **values})


def parsed(values: dict[str, Any]) -> Behaviour:
    """Parse a behaviour.

    Raises:
        ValueError: something is unknown, or of the wrong type.
    """
    for name, value in values.items():
        wanted = _TYPES.get(name)
        whole_as_float = wanted is float and type(value) is int
        if wanted is None or not (type(value) is wanted or whole_as_float):
            raise ValueError(f"{name}: {value!r}")
    return Behaviour(**values)
