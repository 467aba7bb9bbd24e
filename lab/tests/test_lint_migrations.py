"""The linter of migrations refuses what a live sale could not bear, and nothing else."""

from __future__ import annotations

from typing import Any

import pytest

from lab.management.commands.lint_migrations import all_safe


@pytest.mark.long
def test_an_unsafe_migration_is_refused_and_a_safe_one_is_not(
    django_db_blocker: Any, capfd: pytest.CaptureFixture[str]
) -> None:
    """Two migrations from before the baseline: 0007 drops a column, 0008 adds a table."""
    with django_db_blocker.unblock():  # the linter has a database of its own
        safe = all_safe([("inventory", "0007_books_enforced"), ("shop", "0008_alerts")])
    said = capfd.readouterr().out
    assert not safe
    assert "inventory/migrations/0007_books_enforced.sql" in said
    assert "ban-drop-column" in said
    assert "shop/migrations" not in said
