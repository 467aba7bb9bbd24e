"""`manage.py messages`: collect the messages of pages, mails and admin, compile their translations,
and refuse translations that are fuzzy or incomplete.

Each package with a folder `locale` has a catalogue for each of its languages:

    manage.py messages                collect, compile and check (needs gettext)
    manage.py messages --add de       the same, with a new language for the shop
"""

from __future__ import annotations

import re
from argparse import ArgumentParser
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from babel.messages.catalog import Catalog
from babel.messages.mofile import write_mo
from babel.messages.pofile import read_po
from django.apps import AppConfig, apps
from django.core.management import call_command
from django.core.management.base import BaseCommand, CommandError
from django.utils.translation import to_locale

from inventory.translation import TRANSLATED
from shop import environment

PLACEHOLDER = re.compile(r"%\(\w+\)[sd]|%[sd]|\{\w*\}")

LINE = 100
"""Characters, after which the formatter breaks a line."""

NAMES = '''"""Names of models, fields and choices, for gettext; `make messages` writes this file."""

from django.utils.translation import gettext_noop as _

NAMES = (
{names}
)
'''


class Command(BaseCommand):
    """Collects, compiles and checks messages."""

    help = "Collect and compile the messages of all languages; refuse incomplete translations."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Take a language to add."""
        parser.add_argument("--add", metavar="LANGUAGE", help="a language of Django, such as de")

    def handle(self, *args: Any, add: str | None = None, **options: Any) -> None:
        """Collect, compile and check.

        Raises:
            CommandError: a translation is missing or uncertain.
        """
        rooms = translated_rooms()
        for room in rooms:
            languages = sorted(path.name for path in (room / "locale").iterdir() if path.is_dir())
            if add and room.name in {"shop", "inventory"}:
                languages = sorted({*languages, to_locale(add)})
            write_names(room)
            call_command(
                "makemessages",
                locale=languages,
                ignore_patterns=[".venv", *_others(room)],
                add_location="file",
                no_obsolete=True,
                verbosity=0,
            )
        wrong = [text for path in catalogues(rooms) for text in compiled(path)]
        if wrong:
            raise CommandError("\n".join([*wrong, f"{len(wrong)} messages need a translator."]))
        self.stdout.write(f"{len(list(catalogues(rooms)))} catalogues are complete.")


def translated_rooms() -> list[Path]:
    """Return the packages that have catalogues."""
    return sorted(path.parent for path in environment.PROJECT.glob("*/locale"))


def catalogues(rooms: Iterable[Path]) -> Iterator[Path]:
    """Yield the catalogues of all languages."""
    for room in rooms:
        yield from sorted(room.glob("locale/*/LC_MESSAGES/django.po"))


def compiled(path: Path) -> list[str]:
    """Compile a catalogue; return what is wrong with it, one line per message."""
    with path.open("rb") as file:
        catalogue = read_po(file, locale=path.parent.parent.name)
    with path.with_suffix(".mo").open("wb") as file:
        write_mo(file, catalogue)
    shown = path.relative_to(environment.PROJECT)
    return [f"{shown}: {text}" for text in problems(catalogue)]


def problems(catalogue: Catalog) -> list[str]:
    """Return a sentence for each message that is not translated, fuzzy, or has other values."""
    found = []
    for message in catalogue:
        if not message.id:
            continue
        ids, texts = _texts(message.id), _texts(message.string)
        if not all(texts):
            found.append(f"{ids[0]!r} is not translated")
        elif message.fuzzy:
            found.append(f"{ids[0]!r} is fuzzy: {texts[0]!r}")
        elif any(values(text) != values(ids[-1]) for text in texts):
            found.append(f"{ids[0]!r} has other values: {texts[0]!r}")
    return found


def values(text: str) -> set[str]:
    """Return the placeholders of a message."""
    return set(PLACEHOLDER.findall(text))


def write_names(room: Path) -> None:
    """Write the names of a package's models where gettext finds them."""
    if names := names_in(room):
        (room / "names.py").write_text(names, encoding="utf-8")


def names_in(room: Path) -> str:
    """Return the text of a package's `names.py`; empty if no name in it is translated."""
    found = set().union(*(TRANSLATED[app.label] for app in _apps_in(room)))
    lines = [_line(_quoted(name)) for name in sorted(found)]
    return NAMES.replace("{names}", "\n".join(lines)) if lines else ""


def _line(name: str) -> str:
    line = f"    _({name}),"
    return line if len(line) <= LINE else f"    _(\n        {name}\n    ),"


def _apps_in(room: Path) -> list[AppConfig]:
    return [app for app in apps.get_app_configs() if Path(app.path).is_relative_to(room)]


def _others(room: Path) -> list[str]:
    return [path.name for path in environment.PROJECT.iterdir() if path.is_dir() and path != room]


def _texts(text: Any) -> tuple[str, ...]:
    return (text,) if isinstance(text, str) else tuple(text)


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
