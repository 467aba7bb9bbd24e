"""Draws in the admin: announce one before its sale begins, and enter its public value."""

from __future__ import annotations

from typing import Any

from django import forms
from django.contrib import admin, messages
from django.core.exceptions import ValidationError
from django.db.models.functions import Now
from django.http import HttpRequest
from django.utils.translation import gettext, gettext_lazy

from inventory.checked_admin import CheckedAdmin
from shop.catalogue.models import Sale
from shop.draws import drawing, pages
from shop.draws.models import Draw
from shop.draws.sources import FETCHED

LATE = gettext_lazy("A draw is announced before its sale begins, at least half a minute.")


class DrawForm(forms.ModelForm):  # type: ignore[type-arg]
    """A draw to announce, or one whose public value is known."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        if "source" in self.fields:
            self.fields["source"].help_text = gettext(
                "Who gives a value that nobody knows before the end, and which one: “the lottery’s "
                "numbers of 24 December”. Empty: none. Fetched by the shop: %(fetched)s."
            ) % {"fetched": ", ".join(FETCHED)}
        if "public_value" in self.fields:
            self.fields["public_value"].required = False

    def clean_sale(self) -> Sale:
        """Refuse a sale that has begun, or is about to."""
        sale: Sale = self.cleaned_data["sale"]
        if not drawing.may_be_announced(sale.pk, drawing.LEAD * 3):
            raise ValidationError(LATE)
        return sale

    def clean_public_value(self) -> str:
        """Refuse what cannot be a value."""
        value: str = self.cleaned_data["public_value"]
        return drawing.clean_value(value) if value else ""


@admin.register(Draw)
class DrawAdmin(CheckedAdmin):
    """Draws. What was announced or published does not change any more."""

    form = DrawForm
    list_display = ("sale", "status", "lines", "places", "offered")
    list_select_related = ("sale__product",)
    ordering = ("-sale_id",)
    search_fields = ("=sale__id", "sale__product__name")
    autocomplete_fields = ("sale",)
    announced = ("sale", "source", "per_address")
    published = (
        "status",
        "announced",
        "closed",
        "revealed",
        "valued",
        "lines",
        "places",
        "offered",
        "commitment_text",
        "last_hash",
        "seed_text",
    )

    def get_queryset(self, request: HttpRequest) -> Any:
        """Add the database's time, by which a draw is open or closed."""
        return super().get_queryset(request).annotate(now=Now())

    @admin.display(description=gettext_lazy("status"))
    def status(self, draw: Any) -> str:
        """Return where the draw stands, as its page says it."""
        return str(pages.STATUS[draw.status(draw.now)])

    @admin.display(description=gettext_lazy("commitment"))
    def commitment_text(self, draw: Draw) -> str:
        """Return the commitment in hexadecimal digits."""
        return bytes(draw.commitment).hex()

    @admin.display(description=gettext_lazy("last hash"))
    def last_hash(self, draw: Draw) -> str:
        """Return the last hash, once it is final."""
        return bytes(draw.head).hex() if draw.closed else "-"

    @admin.display(description=gettext_lazy("seed"))
    def seed_text(self, draw: Draw) -> str:
        """Return the seed, once it is revealed; before, it is shown to nobody."""
        return "-" if draw.seed is None else bytes(draw.seed).hex()

    def get_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        """Ask for what is announced; afterwards show all of it."""
        if obj is None:
            return self.announced
        return (*self.announced, "public_value", *self.published)

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        """Let only the public value be entered, once, after the close, where staff enter it."""
        if obj is None:
            return ()
        waits = obj.closed and obj.source and not obj.public_value and obj.source not in FETCHED
        return (*self.announced, *self.published, *(() if waits else ("public_value",)))

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Deny it: what was published stays."""
        return False

    def save_model(self, request: HttpRequest, obj: Draw, form: Any, change: bool) -> None:
        """Announce the draw, or enter its public value."""
        if not change:
            drawing.announce(obj.sale_id, source=obj.source, per_address=obj.per_address)
        elif obj.public_value and not drawing.enter_value(obj.pk, obj.public_value):
            messages.error(request, gettext("The public value was entered already."))
