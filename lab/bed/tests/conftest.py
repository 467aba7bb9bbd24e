"""Tests that make hosts are skipped where that is not allowed, which on CI counts as failed."""

from __future__ import annotations

import pytest

from lab.bed.network import NEEDED, missing


def pytest_runtest_setup(item: pytest.Item) -> None:
    if item.get_closest_marker("hosts") and (lacking := missing()):
        pytest.skip(f"{NEEDED}: {lacking}")
