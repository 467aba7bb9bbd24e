"""A base of admin pages that survives requests which no browser sends.

Django's own pages answer 500 to some of them: a filter by the year 99999999, a selection of rows
with the id `x`, an offered choice `NaN`. Here, what cannot be read selects nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from django.contrib import admin
from django.contrib.admin.helpers import ACTION_CHECKBOX_NAME
from django.contrib.admin.options import IncorrectLookupParameters
from django.contrib.admin.views.main import ChangeList
from django.contrib.admin.widgets import AutocompleteSelect
from django.core.exceptions import ValidationError
from django.db import DataError
from django.db.models import Field, QuerySet
from django.http import HttpRequest, HttpResponse


def readable(keys: Iterable[Any], primary_key: Field[Any, Any]) -> list[Any]:
    """Return those keys that a primary key can have."""
    found = []
    for key in keys:
        try:
            primary_key.to_python(key)
        except ValidationError:
            continue
        found.append(key)
    return found


class CheckedList(ChangeList):
    """A list whose filters may hold what Python or the database cannot read.

    Some of that is only found when the rows are asked for. The visitor then gets the list without
    filters, as Django does for a filter that does not exist.
    """

    def get_queryset(self, request: HttpRequest, *others: Any, **more: Any) -> QuerySet[Any]:
        """Return the rows that the filters and the search leave."""
        with _readable_only():
            return super().get_queryset(request, *others, **more)

    def get_results(self, request: HttpRequest) -> None:
        """Read the rows of the page."""
        with _readable_only():
            super().get_results(request)


@contextmanager
def _readable_only() -> Iterator[None]:
    try:
        yield
    except (ValueError, OverflowError, DataError) as error:
        raise IncorrectLookupParameters(error) from error


class CheckedSelect(AutocompleteSelect):
    """A choice by search, which does not look for what cannot be a key."""

    def optgroups(self, name: str, value: Sequence[str], attr: Any = None) -> Any:
        """Return the chosen row, if there is one."""
        return super().optgroups(name, readable(value, self.field.remote_field.model._meta.pk))


class CheckedAdmin(admin.ModelAdmin):  # type: ignore[type-arg]
    """The base of all pages of the admin."""

    def get_changelist(self, request: HttpRequest, **more: Any) -> type[ChangeList]:
        """Return the list's class."""
        return CheckedList

    def changelist_view(self, request: HttpRequest, extra_context: Any = None) -> HttpResponse:
        """Drop selected rows that cannot exist before an action looks for them."""
        if ACTION_CHECKBOX_NAME in request.POST:
            selected = request.POST.getlist(ACTION_CHECKBOX_NAME)
            data = request.POST.copy()
            data.setlist(ACTION_CHECKBOX_NAME, readable(selected, self.opts.pk))
            request.POST = data  # type: ignore[assignment]
        return super().changelist_view(request, extra_context)

    def formfield_for_foreignkey(self, db_field: Any, request: HttpRequest, **more: Any) -> Any:
        """Offer a choice by search that takes any key."""
        if db_field.name in self.get_autocomplete_fields(request):
            more.setdefault("widget", CheckedSelect(db_field, self.admin_site))
        return super().formfield_for_foreignkey(db_field, request, **more)
