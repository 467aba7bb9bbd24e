"""Every text of the pages is in ``words``, in both languages, and none is left over."""

import re
from pathlib import Path
from string import Formatter

import pytest

from shop import messages
from shop.orders.models import Order, OrderEvent
from shop.templatetags.shop_pages import NO_PICTURE, PICTURES

SHOP = Path(messages.__file__).parent
TEMPLATES = {path.name: path.read_text() for path in (SHOP / "templates").rglob("*.html")}
SCRIPT = (SHOP / "static/shop/shop.js").read_text()
STATUSES = ("open", "not_started", "paused", "sold_out", "may_come_back", "ended")
BUILT = {f"status_{status}" for status in STATUSES}
BUILT |= {f"{prefix}_{status}" for prefix in ("order", "about") for status in Order.Status.values}
BUILT |= {f"event_{kind}" for kind in OrderEvent.Kind.values}
BUILT |= {"unknown_look_again", "cancel_some", "return_some"}
BUILT |= {"on_now", "coming_up", "over", *messages.IN_PLACE_OF.values(), "gone_for_now"}


def named_in_templates() -> set[str]:
    return {
        name
        for text in TEMPLATES.values()
        for name in re.findall(r"""{% say ["'](\w+)["']""", text)
    }


def fields(text: str) -> set[str]:
    return {name for _, name, _, _ in Formatter().parse(text) if name}


def test_every_text_a_template_names_exists_and_every_text_is_used():
    assert named_in_templates() | BUILT | set(messages.IN_BROWSER) == set(messages.PAGES)


def test_the_script_gets_exactly_the_texts_it_uses():
    named = set(re.findall(r"words\.(\w+)", SCRIPT))
    named |= {word for word in re.findall(r'"(\w+)"', SCRIPT) if word in ("left", "seconds_to_go")}
    named |= set(*re.findall(r'words\[opening \? "(\w+)" : "(\w+)"\]', SCRIPT))
    named |= set(re.findall(r'words\[status === "open" \? "(\w+)"', SCRIPT))
    named |= {f"status_{status}" for status in STATUSES}  # by words[`status_${status}`]
    assert named == set(messages.IN_BROWSER)


@pytest.mark.parametrize("name", messages.PAGES)
def test_a_text_says_something_in_both_languages_about_the_same_values(name):
    text = messages.PAGES[name]
    assert text.en.strip()
    assert re.search(r"[\u4e00-\u9fff]", text.zh)
    assert fields(text.en) == fields(text.zh)


def test_every_code_has_words_for_a_page():
    for code in messages.PROBLEMS:
        for chinese in (False, True):
            message = messages.refusal(code, chinese=chinese)
            assert message
            assert "Idempotency-Key" not in message


def test_templates_hold_no_texts_of_their_own():
    attributes = re.compile(r"{% block (?:policy|clock|return) %}.*?{% endblock %}")
    code = re.compile(
        r"{%.*?%}|{#.*?#}|{{.*?}}|<pre.*?</pre>|<style.*?</style>|<!doctype html>", re.DOTALL
    )
    names = {"EN", "中文", "HTTP", "openapi", "json"}
    for name in TEMPLATES.keys() - {"state.html"}:  # which is nothing but attributes
        text = code.sub("", attributes.sub("", TEMPLATES[name]))
        shown = re.sub(r"<[^>]*>", "", text)
        assert set(re.findall(r"[A-Za-z]{2,}|[\u4e00-\u9fff]+", shown)) <= names, name


def test_products_without_a_picture_get_a_parcel():
    assert NO_PICTURE in PICTURES
    assert "phone" in PICTURES
