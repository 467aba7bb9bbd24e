"""Every package's messages are translated into each of its languages, and a gap is refused."""

from __future__ import annotations

import io
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from babel.messages.catalog import Catalog
from babel.messages.mofile import write_mo
from babel.messages.pofile import read_po, write_po
from django.test import Client, override_settings

from development.management.commands.messages import (
    catalogues,
    names_in,
    problems,
    translated_rooms,
)
from shop import environment
from shop.tests.test_messages import translations, used

ROOMS = translated_rooms()
CATALOGUES = list(catalogues(ROOMS))


def read(path: Path) -> Catalog:
    with path.open("rb") as file:
        return read_po(file, locale=path.parent.parent.name)


@pytest.mark.parametrize("path", CATALOGUES, ids=lambda path: f"{path.parts[-5]}-{path.parts[-3]}")
def test_catalogue_is_complete_and_compiled(path: Path) -> None:
    catalogue = read(path)
    assert problems(catalogue) == []
    assert used(path.parents[3]) == set(translations(catalogue))
    compiled = io.BytesIO()
    write_mo(compiled, catalogue)
    assert compiled.getvalue() == path.with_suffix(".mo").read_bytes()


def test_chinese_catalogues_are_in_chinese() -> None:
    for path in CATALOGUES:
        if path.parts[-3] == "zh_Hans":
            for key, texts in translations(read(path)).items():
                assert all(re.search(r"[\u4e00-\u9fff]", text) for text in texts), key


def test_catalogues_of_one_language_agree() -> None:
    """A site has all of them at once, so that one would be read in place of the other."""
    said: dict[tuple[str, Any], tuple[str, ...]] = {}
    for path in CATALOGUES:
        for key, texts in translations(read(path)).items():
            assert said.setdefault((path.parts[-3], key), texts) == texts, (path, key)


@pytest.mark.parametrize("room", ROOMS, ids=lambda room: room.name)
def test_names_of_models_are_collected(room: Path) -> None:
    file = room / "names.py"
    assert names_in(room) == (file.read_text() if file.exists() else "")


@pytest.mark.parametrize(
    ("text", "flags", "said"),
    [
        ("%(count)s 个", (), []),
        ("", (), ["'%(count)s left' is not translated"]),
        ("%(count)s 个", ("fuzzy",), ["'%(count)s left' is fuzzy: '%(count)s 个'"]),
        ("%(number)s 个", (), ["'%(count)s left' has other values: '%(number)s 个'"]),
    ],
)
def test_problems_names_what_is_missing(text: str, flags: tuple[str, ...], said: list[str]) -> None:
    catalogue = Catalog(locale="zh_Hans")
    catalogue.add("%(count)s left", text, flags=flags)
    assert problems(catalogue) == said


@pytest.mark.skipif(not shutil.which("xgettext"), reason="collecting messages needs gettext")
@pytest.mark.long
@pytest.mark.django_db
def test_messages_add_a_language_that_pages_then_speak(tmp_path: Path, client: Client) -> None:
    copy_of_the_shop(tmp_path)
    begun = messages_in(tmp_path, "--add", "de")
    assert begun.returncode == 1
    assert "shop/locale/de/LC_MESSAGES/django.po: 'Sign in' is not translated" in begun.stderr

    for room in ("shop", "inventory"):
        translate(tmp_path / room / "locale/de/LC_MESSAGES/django.po", {"Sign in": "Anmelden"})
    done = messages_in(tmp_path)
    assert done.returncode == 0, done.stderr

    client.cookies["django_language"] = "de"
    languages = [("en", "English"), ("de", "Deutsch")]
    with override_settings(LANGUAGES=languages, LOCALE_PATHS=[tmp_path / "shop/locale"]):
        assert "Anmelden</a>" in client.get("/").text


def copy_of_the_shop(folder: Path) -> None:
    for name in ("shop", "inventory", "locking", "development", "serving", "own"):
        shutil.copytree(environment.PROJECT / name, folder / name)
    shutil.copy(environment.PROJECT / "manage.py", folder)
    own = folder / "own/shop.toml"  # as in a shop that was taken home
    ours = environment.own("development")
    text = own.read_text().replace(ours["settings"], "development.settings")
    own.write_text(text.replace(ours["entry"], "development.entry"))


def messages_in(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "manage.py", "messages", *arguments],
        cwd=folder,
        env={**os.environ, "SHOP_DEMO": "1", "DJANGO_SETTINGS_MODULE": "development.settings"},
        capture_output=True,
        text=True,
        check=False,
    )


def translate(path: Path, known: dict[str, str]) -> None:
    """Translate a whole catalogue: what is not known is said as in English."""
    catalogue = read(path)
    for message in catalogue:
        if message.id:
            message.string = known.get(str(message.id), message.id)
    with path.open("wb") as file:
        write_po(file, catalogue)
