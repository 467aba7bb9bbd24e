"""Buyers read translated messages only, complete in both languages, and amounts as they write."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from babel.messages.catalog import Catalog
from babel.messages.extract import extract
from babel.messages.pofile import read_po
from django.utils.translation import gettext, ngettext, override, pgettext
from django.utils.translation.template import templatize

import shop
from shop.api import openapi
from shop.orders.models import Order, OrderEvent
from shop.pages import labels
from shop.pages.labels import LABELS
from shop.pages.refusals import message
from shop.refusals import OF_STAFF, PROBLEMS
from shop.tests.openapi import title

INNER = re.compile(
    r"\b(strateg\w*|lock(s|ed|ing)?|ledgers?|guard(ed)?|fenc\w*|redis|postgres\w*|celery)\b"
    r"|策略|锁|账本|台账|队列|守卫",
    re.IGNORECASE,
)

SHOP = Path(shop.__file__).parent
CATALOGUE = SHOP / "locale/zh_Hans/LC_MESSAGES"
KEYWORDS = {
    **dict.fromkeys(("_", "gettext", "gettext_lazy", "gettext_noop")),
    "ngettext": (1, 2),
    "pgettext_lazy": ((1, "c"), 2),
}

Key = tuple[str | None, tuple[str, ...]]
"""A message's context, singular and plural."""


def sources(app: Path) -> Iterator[str]:
    """Yield every module of an app, and every template as Python calls."""
    for path in app.rglob("*.py"):
        if "tests" not in path.parts:
            yield path.read_text(encoding="utf-8")
    for path in app.rglob("templates/**/*.*"):
        calls = templatize(path.read_text(encoding="utf-8"))
        yield "\n".join(line.strip() for line in calls.splitlines())


def used(app: Path) -> set[Key]:
    return {
        (context, as_texts(message))
        for source in sources(app)
        for _, message, _, context in extract(
            "python", io.BytesIO(source.encode()), KEYWORDS, options={"encoding": "utf-8"}
        )
    }


def translations(catalogue: Catalog) -> dict[Key, tuple[str, ...]]:
    return {
        (each.context, as_texts(each.id)): as_texts(each.string) for each in catalogue if each.id
    }


def as_texts(text: Any) -> tuple[str, ...]:
    return (text,) if isinstance(text, str) else tuple(text)


with (CATALOGUE / "django.po").open("rb") as file:
    CHINESE = read_po(file, locale="zh_Hans")


def test_buyers_never_read_of_strategies_locks_or_ledgers():
    for (_, ids), texts in translations(CHINESE).items():
        assert not [text for text in (*ids, *texts) if INNER.search(text)]


def test_message_has_the_same_translation_in_all_apps():
    with override("zh-hans"):
        for (context, ids), texts in translations(CHINESE).items():
            if len(ids) > 1:
                said = ngettext(ids[0], ids[1], 2)
            else:
                said = pgettext(context, ids[0]) if context else gettext(ids[0])
            assert said == texts[0]


@pytest.mark.parametrize("code", PROBLEMS)
def test_codes_have_a_message_in_both_languages(code):
    assert re.fullmatch(r"[a-z_]+", code)
    assert 400 <= PROBLEMS[code].status < 600
    for language, letters in (("en", "[a-z]"), ("zh-hans", "[\u4e00-\u9fff]")):
        with override(language):
            on_page = str(message(code))
        assert all(re.search(letters, text) for text in (title(code, language), on_page))
        assert "Idempotency-Key" not in on_page
    assert title(code).isascii()


def test_codes_include_every_refusal_in_the_code():
    used = set()
    for path in SHOP.rglob("*.py"):
        if "tests" not in path.relative_to(SHOP).parts:
            used |= set(re.findall(r'Refusal\(\s*"([a-z_]+)"', path.read_text(encoding="utf-8")))
    assert len(used) > 10
    assert used <= PROBLEMS.keys() | OF_STAFF.keys()


def test_codes_include_a_refusal_for_every_order_state():
    assert {f"order_{status}" for status in Order.Status.values} <= set(PROBLEMS)


def test_codes_that_may_be_tried_again_say_when():
    for problem in PROBLEMS.values():
        assert (problem.retry_after is not None) == (problem.status in {429, 503})


TEMPLATES = {path.name: path.read_text() for path in (SHOP / "templates").rglob("*.html")}
SCRIPT = (SHOP / "static/shop/shop.js").read_text()


def test_states_and_events_have_their_labels():
    statuses = set(Order.Status.values)
    assert set(LABELS["order_status"]) == set(LABELS["order_about"]) == statuses
    assert set(LABELS["order_event"]) == set(OrderEvent.Kind.values)


def test_script_gets_exactly_the_messages_it_uses():
    named = set(re.findall(r"messages\.(\w+)", SCRIPT))
    named |= set(re.findall(r'format\("(\w+)"', SCRIPT))
    named |= set(*re.findall(r'messages\[opening \? "(\w+)" : "(\w+)"\]', SCRIPT))
    named |= set(re.findall(r'messages\[status === "open" \? "(\w+)"', SCRIPT))
    named |= {f"status_{status}" for status in LABELS["sale_status"]}  # by messages[`status_${…}`]
    assert named == set(labels.SCRIPT)


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


@pytest.mark.django_db
def test_name_of_the_shop_is_set_in_one_place(sale, settings, client):
    before, settings.SHOP_NAME = settings.SHOP_NAME, "Another name"
    pages = [client.get(path).content.decode() for path in ("/", "/sign-in/", f"/sales/{sale.pk}/")]
    assert all("Another name" in page and before not in page for page in pages)
    assert openapi.document()["info"]["title"] == "Another name"
