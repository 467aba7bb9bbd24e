"""The stage of stories: patient servers, and a clock that stands still."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from inventory import redis
from shop.background import tasks
from shop.operating import health
from shop.tests.specification import clock


@pytest.fixture
def stage(settings: Any, monkeypatch: pytest.MonkeyPatch, transactional_db: None) -> Iterator[None]:
    monkeypatch.setattr(tasks, "_ask_for", lambda task: None)
    # On a busy machine servers answer late.
    monkeypatch.setattr(health, "MAX_SECONDS", 60.0)
    for name in ("TIMEOUT", "CONNECT_TIMEOUT"):
        monkeypatch.setattr(redis, name, 60.0)
    settings.REDIS_URL = settings.REDIS_URL  # which makes clients anew, now and in the end
    with clock.stands_still():
        yield
