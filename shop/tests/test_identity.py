"""The database's identity."""

from __future__ import annotations

import pytest
from django.core.management import call_command

from shop.identity import Identity, identity

pytestmark = pytest.mark.django_db(transaction=True)


def test_identity_stays_until_the_database_is_restored(capsys):
    first = identity()
    assert identity() == first
    call_command("after_restore")
    second = identity()
    assert second != first
    assert second in capsys.readouterr().out
    # Payments that were begun under the first one are still ours.
    assert set(Identity.objects.values_list("value", flat=True)) == {first, second}
