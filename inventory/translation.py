"""Names of models, fields and choices in the visitor's language, for the admin.

Django derives most of these names from Python's, in English. Once all apps are loaded, they become
messages like any other text. `make messages` lists them in each package's `names.py`, where gettext
finds them.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from django.apps import AppConfig
from django.utils.functional import Promise
from django.utils.translation import gettext_lazy

TRANSLATED: dict[str, set[str]] = defaultdict(set)
"""The names that became messages, by the app's label."""


def translate_names(app: AppConfig) -> None:
    """Let the catalogues translate the names in an app."""

    def translated(text: Any) -> Any:
        # An empty text is no message, but the key of the catalogue's own header.
        if isinstance(text, Promise) or not text:
            return text
        TRANSLATED[app.label].add(text)
        return gettext_lazy(text)

    app.verbose_name = translated(app.verbose_name)
    for model in app.get_models():
        options: Any = model._meta
        if "verbose_name_plural" not in options.original_attrs:
            # Django's own would be an "s" after the name, in any language.
            options.verbose_name_plural = f"{options.verbose_name}s"
        options.verbose_name = translated(options.verbose_name)
        options.verbose_name_plural = translated(options.verbose_name_plural)
        for field in options.local_fields:
            field.verbose_name = translated(field.verbose_name)
            field.help_text = translated(field.help_text)
            if field.choices:
                field.choices = [(value, translated(name)) for value, name in field.choices]
