"""Configured misbehaviour of the provider, for tests of the shop.

Random faults depend on the seed and on what they affect, not on the order of requests: a run with
the same orders and the same seed has the same faults.
"""

from __future__ import annotations

import hashlib

import msgspec


class Behaviour(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Rates are from 0 to 1, times in ms. By default, the provider has no faults.

    Attributes:
        seed: of random faults.
        delay: before every answer.
        processing: time until captures and refunds are decided; 0: at once.
        decline: share of captures that fail.
        bounce: share of refunds that fail.
        lost: share of answers that are lost although the request took effect.
        copies: deliveries per webhook.
        shuffle: maximum random delay of a webhook.
        webhook_url: where webhooks go; empty: none are sent.
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
