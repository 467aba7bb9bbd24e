"""A run lets the payment provider misbehave, and behave again."""

from __future__ import annotations

import json

import pytest

from development.errors import StackError
from lab.proof.processes import misbehave
from lab.tests.psp import Psp

pytestmark = pytest.mark.django_db


def test_the_provider_misbehaves_until_it_is_told_to_behave(psp: Psp) -> None:
    misbehave(psp.url, decline=0.05, copies=2)
    told = json.loads(psp.call("behaviour"))
    assert (told["decline"], told["copies"], told["lost"]) == (0.05, 2, 0)
    misbehave(psp.url, lost=0.03)
    assert json.loads(psp.call("behaviour"))["decline"] == 0, "replaced, not added to"
    misbehave(psp.url)
    assert json.loads(psp.call("behaviour"))["lost"] == 0


def test_a_misbehaviour_that_there_is_not_is_refused(psp: Psp) -> None:
    with pytest.raises(StackError, match="generosity"):
        misbehave(psp.url, generosity=1)


def test_a_provider_that_is_away_is_told() -> None:
    with pytest.raises(StackError, match="does not answer"):
        misbehave("http://127.0.0.1:1", lost=0.1)
