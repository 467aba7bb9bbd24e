"""Codes and messages: complete, in both languages, and the only ones there are."""

import re
from pathlib import Path

import pytest

from shop import messages
from shop.orders.models import Order

SHOP = Path(messages.__file__).parent


@pytest.mark.parametrize("code", messages.PROBLEMS)
def test_every_code_is_stable_in_form_and_says_something_in_both_languages(code):
    problem = messages.PROBLEMS[code]
    assert re.fullmatch(r"[a-z_]+", code)
    assert 400 <= problem.status < 600
    assert problem.en.isascii()
    assert re.search(r"[\u4e00-\u9fff]", problem.zh)


def test_every_code_that_the_shop_refuses_with_is_there():
    used = set()
    for path in SHOP.rglob("*.py"):
        if "tests" not in path.relative_to(SHOP).parts:
            used |= set(re.findall(r'Refusal\(\s*"([a-z_]+)"', path.read_text(encoding="utf-8")))
    assert len(used) > 10
    assert used <= set(messages.PROBLEMS)


def test_every_state_of_an_order_has_words_for_refusing_a_change():
    assert {f"order_{status}" for status in Order.Status.values} <= set(messages.PROBLEMS)


def test_what_may_be_tried_again_says_when():
    temporary = {code for code, each in messages.PROBLEMS.items() if each.status in {429, 503}}
    assert temporary == set(messages.RETRY_AFTER)
