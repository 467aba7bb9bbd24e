"""Every message of code and templates is in the compiled Chinese catalogue."""

import io
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from babel.messages.catalog import Catalog
from babel.messages.extract import extract
from babel.messages.mofile import write_mo
from babel.messages.pofile import read_po
from django.utils.translation import gettext, ngettext, override, pgettext
from django.utils.translation.template import templatize

import shop
from shop.tests.buyer_words import INNER

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
    for path in (app / "templates").rglob("*.*"):
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


def values(text: str) -> set[str]:
    return set(re.findall(r"%\(\w+\)s", text))


with (CATALOGUE / "django.po").open("rb") as file:
    CHINESE = read_po(file, locale="zh_Hans")


def test_the_catalogue_has_the_messages_that_are_used_and_no_others():
    assert used(SHOP) == set(translations(CHINESE))


@pytest.mark.parametrize(("key", "texts"), translations(CHINESE).items())
def test_a_message_is_translated_with_the_same_values(key, texts):
    _, ids = key
    for text in texts:
        assert re.search(r"[\u4e00-\u9fff]", text)
        assert all(values(text) == values(original) for original in ids)


def test_buyers_never_read_of_strategies_locks_or_ledgers():
    for (_, ids), texts in translations(CHINESE).items():
        assert not [text for text in (*ids, *texts) if INNER.search(text)]


def test_no_translation_waits_to_be_reviewed():
    assert not [message.id for message in CHINESE if message.fuzzy]


def test_the_compiled_catalogue_is_up_to_date():
    compiled = io.BytesIO()
    write_mo(compiled, CHINESE)
    assert compiled.getvalue() == (CATALOGUE / "django.mo").read_bytes()


def test_no_other_app_translates_the_same_message_differently():
    with override("zh-hans"):
        for (context, ids), texts in translations(CHINESE).items():
            if len(ids) > 1:
                said = ngettext(ids[0], ids[1], 2)
            else:
                said = pgettext(context, ids[0]) if context else gettext(ids[0])
            assert said == texts[0]
