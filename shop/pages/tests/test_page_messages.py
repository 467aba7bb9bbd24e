"""The pages show translated messages only, and the script has all that it shows."""

import re
from pathlib import Path

import pytest
from django.utils.translation import override

from shop import refusals
from shop.api import openapi
from shop.orders.models import Order, OrderEvent
from shop.pages import labels
from shop.pages.labels import LABELS
from shop.pages.refusals import message
from shop.refusals import PROBLEMS
from shop.templatetags.shop_pages import NO_PICTURE, PICTURES

SHOP = Path(refusals.__file__).parent
TEMPLATES = {path.name: path.read_text() for path in (SHOP / "templates").rglob("*.html")}
SCRIPT = (SHOP / "static/shop/shop.js").read_text()


def test_every_state_and_event_has_its_labels():
    statuses = set(Order.Status.values)
    assert set(LABELS["order_status"]) == set(LABELS["order_about"]) == statuses
    assert set(LABELS["order_event"]) == set(OrderEvent.Kind.values)


def test_the_script_gets_exactly_the_messages_it_uses():
    named = set(re.findall(r"messages\.(\w+)", SCRIPT))
    named |= set(re.findall(r'format\("(\w+)"', SCRIPT))
    named |= set(*re.findall(r'messages\[opening \? "(\w+)" : "(\w+)"\]', SCRIPT))
    named |= set(re.findall(r'messages\[status === "open" \? "(\w+)"', SCRIPT))
    named |= {f"status_{status}" for status in LABELS["sale_status"]}  # by messages[`status_${…}`]
    assert named == set(labels.SCRIPT)


@pytest.mark.parametrize("language", ["en", "zh-hans"])
@pytest.mark.parametrize("code", PROBLEMS)
def test_every_code_has_a_message_for_a_page(code, language):
    with override(language):
        assert "Idempotency-Key" not in message(code)
        assert message(code)


def test_templates_hold_no_texts_of_their_own():
    attributes = re.compile(r"{% block (?:policy|clock|return) %}.*?{% endblock %}")
    code = re.compile(
        r"{% blocktranslate.*?endblocktranslate %}|{%.*?%}|{#.*?#}|{{.*?}}"
        r"|<pre.*?</pre>|<style.*?</style>|<!doctype html>",
        re.DOTALL,
    )
    names = {"EN", "中文", "HTTP", "openapi", "json"}
    for name in TEMPLATES.keys() - {"state.html"}:  # attributes only
        text = code.sub("", attributes.sub("", TEMPLATES[name]))
        shown = re.sub(r"<[^>]*>", "", text)
        assert set(re.findall(r"[A-Za-z]{2,}|[\u4e00-\u9fff]+", shown)) <= names, name


def test_products_without_a_picture_get_a_parcel():
    assert NO_PICTURE in PICTURES
    assert "phone" in PICTURES


@pytest.mark.django_db
def test_the_shops_name_is_set_in_one_place(sale, settings, client):
    before, settings.SHOP_NAME = settings.SHOP_NAME, "Another name"
    pages = [client.get(path).content.decode() for path in ("/", "/sign-in/", f"/sales/{sale.pk}/")]
    assert all("Another name" in page and before not in page for page in pages)
    assert openapi.document()["info"]["title"] == "Another name"
