"""The web process of the direct buyers has the guard as its only safeguard, or none."""

from __future__ import annotations

import pytest

from lab.proof.direct import only_guarded


@pytest.mark.parametrize(
    ("of_the_shop", "of_the_process"),
    [("admission,guard,lock", "guard"), ("admission,lock", "connections")],
)
def test_nothing_but_the_guard_is_on(
    of_the_shop: str, of_the_process: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("INVENTORY_FEATURE_FLAGS", of_the_shop)
    assert only_guarded(None)["INVENTORY_FEATURE_FLAGS"] == of_the_process
