"""The lab's and the course's pages in Chinese."""

import re
from pathlib import Path

import pytest
from babel.messages.catalog import Catalog
from babel.messages.pofile import read_po
from django.utils.translation import gettext, override

import course
import lab
from course.lesson import scenarios
from course.views import SCRIPT
from shop.tests.test_messages import INNER, translations

LAB, COURSE = (Path(app.__path__[0]) for app in (lab, course))


def catalogue_of(app: Path) -> Catalog:
    with (app / "locale/zh_Hans/LC_MESSAGES/django.po").open("rb") as file:
        return read_po(file, locale="zh_Hans")


@pytest.mark.parametrize("app", [LAB, COURSE], ids=lambda app: app.name)
def test_site_says_every_message_as_its_own_catalogue_does(app):
    with override("zh-hans"):
        for (_, [original]), [text] in translations(catalogue_of(app)).items():
            assert gettext(original) == text


def test_translations_cover_positions_and_their_script():
    said = {one.flaw.wrong.value for one in scenarios() if one.flaw.wrong}
    with override("en"):  # a test before may have spoken Chinese
        said |= {str(text) for text in SCRIPT.values()}
    assert said <= {original for _, [original] in translations(catalogue_of(COURSE))}


def test_buyers_never_read_of_strategies_locks_or_ledgers():
    buyers_pages = [LAB / "templates/lab/mails.html", *(LAB / "demo/templates").rglob("*.html")]
    chinese = translations(catalogue_of(LAB))
    for page in buyers_pages:
        texts = re.findall(r'translate "([^"]*)"', page.read_text())
        assert texts
        for text in texts:
            assert not INNER.search(f"{text} {chinese.get((None, (text,)), ())}")
