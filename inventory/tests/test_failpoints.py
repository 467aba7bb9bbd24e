"""Failpoints are no-ops until something arms them."""

from __future__ import annotations

from inventory import failpoints


def test_an_unarmed_failpoint_does_nothing():
    failpoints.hit(failpoints.BEFORE_COMMIT)


def test_an_armed_failpoint_calls_its_hook_until_it_is_disarmed():
    seen: list[str] = []
    failpoints.arm(seen.append)
    failpoints.hit(failpoints.LOCKED)
    failpoints.disarm(seen.append)
    failpoints.hit(failpoints.AFTER_COMMIT)
    assert seen == [failpoints.LOCKED]
