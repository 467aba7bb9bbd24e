"""Failpoints are no-ops until something arms them."""

from __future__ import annotations

from inventory import failpoints


def test_an_unarmed_failpoint_does_nothing():
    failpoints.hit(failpoints.BEFORE_COMMIT)


def test_an_armed_failpoint_calls_its_hook(monkeypatch):
    monkeypatch.setattr(failpoints, "_hooks", [])
    seen: list[str] = []
    failpoints.arm(seen.append)
    failpoints.hit(failpoints.LOCKED)
    assert seen == [failpoints.LOCKED]
