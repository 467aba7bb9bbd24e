"""The shop against its specification, through every door, in stories that Hypothesis invents."""

from __future__ import annotations

import os

import pytest
from hypothesis import HealthCheck, seed
from hypothesis import settings as profile
from hypothesis.stateful import run_state_machine_as_test

from shop.tests.specification.found import TOURS, Steps
from shop.tests.specification.story import Story

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("stage")]

TIMEOUT = 1800
"""Seconds for stories: a failing one is told many times, until it is as short as can be."""

PARTS = 3
"""Parts of the stories, which workers of pytest-xdist tell at the same time."""

STORIES = int(os.environ.get("STORIES", "30"))


def play(stories: int, part: int | None = None) -> None:
    """Tell that many stories; one that fails is told in its shortest form, in sentences.

    Args:
        stories: how many.
        part: which ones: the same in each run. None: others each time.
    """
    told = type("Told", (Story,), {})
    run_state_machine_as_test(
        told if part is None else seed(part)(told),
        settings=profile(
            max_examples=stories,
            stateful_step_count=30,
            deadline=None,
            database=None,
            suppress_health_check=list(HealthCheck),
        ),
    )


@pytest.mark.parametrize("steps", TOURS.values(), ids=TOURS)
def test_a_tour_of_the_shop_shows_what_the_specification_says(steps: Steps) -> None:
    Story().replay(steps)


@pytest.mark.timeout(TIMEOUT)
@pytest.mark.parametrize("part", range(PARTS))
def test_shop_and_specification_tell_the_same_story_whoever_acts_in_whatever_order(
    part: int,
) -> None:
    play(STORIES // PARTS, part)


@pytest.mark.timeout(TIMEOUT)
@pytest.mark.nightly
def test_shop_and_specification_tell_many_more_stories_alike() -> None:
    play(10 * STORIES)
