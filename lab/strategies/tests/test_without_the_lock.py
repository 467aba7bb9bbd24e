"""The test of inventory's seller in two processes, with the strategies that need no lock."""

from __future__ import annotations

import pytest

from inventory.tests.test_processes import (
    test_two_processes_without_the_lock_sell_exactly_what_there_is,
)

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.parametrize("by", ["combining", "guard", "row_lock"], indirect=True),
    pytest.mark.usefixtures("by"),
]

__all__ = ["test_two_processes_without_the_lock_sell_exactly_what_there_is"]
