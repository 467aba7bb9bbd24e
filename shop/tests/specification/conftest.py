"""The stage of stories: a provider whose ledger the audit reads, and a clock that stands still."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

import pytest

from inventory import redis
from shop.audit import money
from shop.background import tasks
from shop.operating import health
from shop.payments.provider import provider
from shop.tests.specification import clock, rest
from shop.tests.specification.world import Psp


@pytest.fixture
def stage(settings: Any, monkeypatch: pytest.MonkeyPatch, transactional_db: None) -> Iterator[None]:
    monkeypatch.setattr(money, "ledger_lines", lambda: rest.ledger(cast(Psp, provider())))
    monkeypatch.setattr(tasks, "_ask_for", lambda task: None)
    # On a busy machine servers answer late.
    monkeypatch.setattr(health, "MAX_SECONDS", 60.0)
    for name in ("TIMEOUT", "CONNECT_TIMEOUT"):
        monkeypatch.setattr(redis, name, 60.0)
    settings.REDIS_URL = settings.REDIS_URL  # which makes clients anew, now and in the end
    with clock.stands_still():
        yield
