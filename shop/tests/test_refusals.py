"""The codes of refusals are complete, and no others are used."""

import re
from pathlib import Path

import pytest

from shop import refusals
from shop.orders.models import Order
from shop.refusals import PROBLEMS
from shop.tests.messages import title

SHOP = Path(refusals.__file__).parent


@pytest.mark.parametrize("code", PROBLEMS)
def test_every_code_is_stable_in_form_and_says_something_in_both_languages(code):
    assert re.fullmatch(r"[a-z_]+", code)
    assert 400 <= PROBLEMS[code].status < 600
    assert title(code).isascii()
    assert re.search(r"[\u4e00-\u9fff]", title(code, "zh-hans"))


def test_every_code_that_the_shop_refuses_with_is_there():
    used = set()
    for path in SHOP.rglob("*.py"):
        if "tests" not in path.relative_to(SHOP).parts:
            used |= set(re.findall(r'Refusal\(\s*"([a-z_]+)"', path.read_text(encoding="utf-8")))
    assert len(used) > 10
    assert used <= set(PROBLEMS)


def test_every_state_of_an_order_has_a_code_for_refusing_a_change():
    assert {f"order_{status}" for status in Order.Status.values} <= set(PROBLEMS)


def test_what_may_be_tried_again_says_when():
    for problem in PROBLEMS.values():
        assert (problem.retry_after is not None) == (problem.status in {429, 503})
