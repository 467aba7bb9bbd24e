"""The provider of stories, whose ledger the audit reads; no task asks for another."""

from __future__ import annotations

from typing import Any, cast

import pytest

from shop.audit import money
from shop.background import tasks
from shop.payments.provider import provider
from shop.tests.specification import rest
from shop.tests.specification.world import Psp


@pytest.fixture
def moody_provider(settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    settings.PAYMENT_PROVIDER = "shop.tests.specification.world.Psp"
    monkeypatch.setattr(money, "ledger_lines", lambda: rest.ledger(cast(Psp, provider())))
    monkeypatch.setattr(tasks, "_ask_for", lambda task: None)
