"""Every message of the lab's pages is in the compiled Chinese catalogue."""

import io
import re
from pathlib import Path

from babel.messages.mofile import write_mo
from babel.messages.pofile import read_po
from django.utils.translation import gettext, override

import lab
from shop.tests.test_messages import INNER, translations, used, values

LAB = Path(lab.__file__).parent
CATALOGUE = LAB / "locale/zh_Hans/LC_MESSAGES"

with (CATALOGUE / "django.po").open("rb") as file:
    CHINESE = read_po(file, locale="zh_Hans")


def test_the_catalogue_has_the_messages_that_are_used_and_no_others():
    assert used(LAB) == set(translations(CHINESE))


def test_buyers_never_read_of_strategies_locks_or_ledgers():
    buyers_pages = [LAB / "templates/lab/mails.html", *(LAB / "demo/templates").rglob("*.html")]
    for page in buyers_pages:
        texts = re.findall(r'translate "([^"]*)"', page.read_text())
        assert texts
        chinese = translations(CHINESE)
        for text in texts:
            assert not INNER.search(text)
            assert not INNER.search("".join(chinese.get((None, (text,)), ())))


def test_every_message_is_translated_with_the_same_values_and_as_the_site_says_it():
    with override("zh-hans"):
        for (_, [original]), [text] in translations(CHINESE).items():
            assert re.search(r"[\u4e00-\u9fff]", text), original
            assert values(text) == values(original)
            assert gettext(original) == text


def test_the_compiled_catalogue_is_up_to_date():
    compiled = io.BytesIO()
    write_mo(compiled, CHINESE)
    assert compiled.getvalue() == (CATALOGUE / "django.mo").read_bytes()
    assert not [message.id for message in CHINESE if message.fuzzy]
