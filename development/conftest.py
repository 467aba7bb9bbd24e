"""The shop's fixtures, and the fake payment provider as a separate process."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from development.tests.psp import KEY, SECRET, Psp, running_psp
from shop.conftest import ann, bob, fake_provider, sale, sale_of
from shop.payments.provider import provider

__all__ = ["ann", "bob", "fake_provider", "sale", "sale_of"]


@pytest.fixture(scope="session")
def _running_psp() -> Iterator[Psp]:
    with running_psp() as psp:
        yield psp


@pytest.fixture
def psp(_running_psp: Psp, settings: Any) -> Iterator[Psp]:
    """The payment provider, without faults, in the shop's settings.

    It sends webhooks only after ``psp.behave(webhook_url=…)``.
    """
    settings.PSP_URL, settings.PSP_KEY = _running_psp.url, KEY
    settings.PSP_WEBHOOK_SECRET = SECRET
    settings.PAYMENT_PROVIDER = "shop.payments.http_provider.HttpProvider"
    provider.cache_clear()
    yield _running_psp
    _running_psp.forget()
