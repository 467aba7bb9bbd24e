"""Details that a buyer states with an order, such as a shipping address.

`Order.DETAILS` names their fields. The API's requests and answers, the pages' forms, the order's
page, the mails, the admin and the insert statement follow from those fields.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import date
from typing import Annotated, Any, Literal, TypeAlias, cast

from django.core.exceptions import ImproperlyConfigured
from django.db.models import NOT_PROVIDED, BooleanField, CharField, DateField, Field, TextField
from msgspec import NODEFAULT, Meta

from inventory.outcomes import Purchase
from shop.orders.models import Order

AnyField: TypeAlias = "Field[Any, Any]"
Details: TypeAlias = Mapping[str, Any]

NO_NUL = "^[^\\u0000]*$"
"""PostgreSQL's text has no NUL."""

NOT_BLANK = "^(?=[\\s\\S]*\\S)[^\\u0000]*$"
"""The same, and not only spaces, which the pages' forms cut off."""


@dataclass(frozen=True, slots=True)
class DetailedPurchase(Purchase):
    """A purchase with what else the buyer states.

    Attributes:
        details: for the order.
        expected_amount: what the whole order may cost at most, in minor units; None if the buyer
            says nothing. In a cart, the first purchase says it. No part of the purchase: a repeat
            of its key gets the order, whatever it expects.
        early_code: the buyer's code for buying before the sale opens for all; empty for none.
    """

    details: Details = field(default_factory=dict, kw_only=True)
    expected_amount: int | None = field(default=None, compare=False, kw_only=True)
    early_code: str = field(default="", compare=False, kw_only=True)


def fields() -> list[AnyField]:
    """Return the fields of the details."""
    return [cast("AnyField", Order._meta.get_field(name)) for name in Order.DETAILS]


def complete(details: Details) -> dict[str, Any]:
    """Return the details with a default for each that is missing."""
    return {detail.name: details.get(detail.name, _default(detail)) for detail in fields()}


def labelled(order: Order) -> list[tuple[str, Any]]:
    """Return an order's details with their labels in the current language; no empty ones."""
    named = [(str(detail.verbose_name), getattr(order, detail.name)) for detail in fields()]
    return [(label[:1].upper() + label[1:], value) for label, value in named if value]


def members(of: Iterable[AnyField]) -> list[tuple[str, Any, Any]]:
    """Return the API's members for fields: name, type and default.

    As in the pages' forms, a field may be left out if it is `blank`, has a `default`, or is yes or
    no; any other one is required, and a required text is more than spaces.

    Raises:
        ImproperlyConfigured: a field is no text, date, or yes or no.
    """
    return [(field.name, _type(field), _api_default(field)) for field in of]


def _type(of: AnyField) -> Any:
    about = str(of.help_text) or None
    if of.choices:
        values = [value for value, _ in of.flatchoices]
        if of.blank and of.empty_strings_allowed and "" not in values:
            values.append("")
        return Annotated[Literal[tuple(values)], Meta(description=about)]
    if isinstance(of, (CharField, TextField)):
        least = None if of.blank else 1
        pattern = NO_NUL if of.blank else NOT_BLANK
        text = Meta(min_length=least, max_length=of.max_length, pattern=pattern, description=about)
        return Annotated[str, text]
    if isinstance(of, BooleanField):
        return Annotated[bool, Meta(description=about)]
    if isinstance(of, DateField):
        return Annotated[date | None if of.null else date, Meta(description=about)]
    raise ImproperlyConfigured(f"{of} is a detail of an order but no text, date, or yes or no.")


def _api_default(of: AnyField) -> Any:
    # A `db_default` alone makes nothing optional: each detail has one, for the version before the
    # column, and the pages' forms do not look at it. They take a missing tick as no.
    optional = of.blank or of.has_default() or isinstance(of, BooleanField)
    return _default(of) if optional else NODEFAULT


def _default(of: AnyField) -> Any:
    if of.has_default():
        return of.get_default()
    if of.db_default is not NOT_PROVIDED:
        return of.db_default
    return "" if of.empty_strings_allowed and not of.null else None
