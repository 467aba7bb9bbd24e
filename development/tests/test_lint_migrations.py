"""The linter of migrations refuses what a live sale could not bear, and nothing else."""

from __future__ import annotations

from typing import Any

import pytest

from development.management.commands.lint_migrations import all_safe, is_safe


@pytest.mark.long
def test_the_sql_of_a_safe_migration_is_read_from_django(django_db_blocker: Any) -> None:
    with django_db_blocker.unblock():  # the linter has a database of its own
        assert all_safe([("accounts", "0001_initial")])


def test_an_unsafe_migration_is_refused_and_a_safe_one_is_not(
    capfd: pytest.CaptureFixture[str],
) -> None:
    drops = is_safe(("shop", "0002_drop"), ["ALTER TABLE shop_sale DROP COLUMN hold;"], atomic=True)
    adds = is_safe(("shop", "0003_add"), ["CREATE TABLE shop_note (id bigint);"], atomic=True)
    said = capfd.readouterr().out
    assert (drops, adds) == (False, True)
    assert "shop/migrations/0002_drop.sql" in said
    assert "ban-drop-column" in said
    assert "0003_add" not in said
