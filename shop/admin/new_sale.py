"""The admin's form that makes a product, its stock and its sale at once."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal
from typing import Any, cast

from django import forms
from django.contrib import admin
from django.contrib.admin.widgets import AdminSplitDateTime
from django.core.exceptions import PermissionDenied, ValidationError
from django.db import IntegrityError, transaction
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.template.response import TemplateResponse
from django.urls import URLPattern, path
from django.utils.text import slugify
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from inventory.admin import MAX_UNITS
from shop.admin.acts import MAX_MINUTES
from shop.catalogue.models import Product, Sale
from shop.catalogue.sales import database_time, open_sale
from shop.money import check_currency, default_currency, to_minor

NEEDED = ("shop.add_product", "shop.add_sale", "inventory.add_item")
"""Permissions for the three rows that the form makes."""

MOMENTS = {
    "starts_at": (_("Starts: date"), _("Starts: time")),
    "ends_at": (_("Ends: date"), _("Ends: time")),
}
"""Labels of the two inputs of a moment, for those who hear the page."""

MAX_LIMIT = 1000


class NewSaleForm(forms.Form):
    """What a sale needs; the rest has its default, and can be changed on the sale's page."""

    name = forms.CharField(max_length=200, label=_("Product"))
    slug = forms.SlugField(
        required=False, label=_("Slug"), help_text=_("of its picture; made of the name if empty")
    )
    units = forms.IntegerField(min_value=1, max_value=MAX_UNITS, label=_("Units in stock"))
    list_price = forms.DecimalField(min_value=0, label=_("List price"))
    price = forms.DecimalField(min_value=0, label=_("Price"), help_text=_("of a unit"))
    currency = forms.CharField(
        min_length=3, max_length=3, initial=default_currency, validators=[check_currency],
        label=_("Currency"),
    )  # fmt: skip
    limit = forms.IntegerField(
        min_value=1, max_value=MAX_LIMIT, initial=1, label=_("Units per buyer")
    )
    starts_at = forms.SplitDateTimeField(widget=AdminSplitDateTime, label=_("Starts"))
    ends_at = forms.SplitDateTimeField(widget=AdminSplitDateTime, label=_("Ends"))
    minutes = forms.IntegerField(
        min_value=1, max_value=MAX_MINUTES, initial=15, label=_("Minutes to pay")
    )
    listed = forms.BooleanField(required=False, initial=True, label=_("On the home page"))

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        for name, labels in MOMENTS.items():
            widget = cast("AdminSplitDateTime", self.fields[name].widget)
            for part, text in zip(widget.widgets, labels, strict=True):
                part.attrs["aria-label"] = str(text)

    def clean(self) -> dict[str, Any]:
        """Convert the prices; check what fields say together."""
        given: dict[str, Any] = super().clean() or self.cleaned_data
        given["slug"] = given.get("slug") or slugify(given.get("name", ""))
        if not given["slug"] and "name" in given:
            self.add_error("slug", gettext("Enter one: the name has no Latin letters or digits."))
        elif Product.objects.filter(slug=given["slug"]).exists():
            self.add_error("slug", _taken())
        for name in ("list_price", "price"):
            amount: Decimal | None = given.get(name)
            if amount is not None and "currency" in given:
                try:
                    given[name] = to_minor(amount, given["currency"])
                except ValueError as error:
                    self.add_error(name, str(error))
        starts, ends = given.get("starts_at"), given.get("ends_at")
        if starts and ends and ends <= starts:
            self.add_error("ends_at", gettext("A sale must end after it starts."))
        return given


def _taken() -> str:
    return gettext("There is a product with this slug already.")


@transaction.atomic
def make_sale(given: dict[str, Any]) -> Sale:
    """Make a product, an item with its stock, and a sale: all or none.

    Args:
        given: the form's values; prices in minor units.

    Raises:
        ValidationError: a value is refused by a model.
        IntegrityError: somebody has just made a product with this slug.
    """
    named = {name: given[name] for name in ("name", "slug", "list_price", "currency")}
    product = Product(**named)
    product.full_clean()
    product.save()
    return open_sale(
        stock=given["units"],
        price=given["price"],
        limit=given["limit"],
        currency=given["currency"],
        product=product,
        starts_in=given["starts_at"] - database_time(),  # of this transaction, as there
        lasts=given["ends_at"] - given["starts_at"],
        hold=timedelta(minutes=given["minutes"]),
        listed=given["listed"],
    )


class NewSales(admin.ModelAdmin):  # type: ignore[type-arg]
    """The sales' admin with that form."""

    def get_urls(self) -> list[URLPattern]:
        """Add the form's page."""
        view = self.admin_site.admin_view(self.new)
        return [path("new/", view, name="shop_sale_new"), *super().get_urls()]

    def new(self, request: HttpRequest) -> HttpResponse:
        """Ask for all that a sale needs, then make it."""
        if not request.user.has_perms(NEEDED):
            raise PermissionDenied
        form = NewSaleForm(request.POST if request.method == "POST" else None)
        if request.method == "POST" and form.is_valid():
            try:
                sale = make_sale(form.cleaned_data)
            except ValidationError as refused:
                form.add_error(None, ValidationError(refused.messages))
            except IntegrityError:
                form.add_error("slug", _taken())
            else:
                self.log_addition(request, sale, gettext("Made with its product and stock."))
                may_change = self.has_change_permission(request)
                if may_change:
                    return redirect("admin:shop_sale_change", sale.pk)
                return redirect("admin:index")
        context = {
            **self.admin_site.each_context(request),
            "opts": self.opts,
            "title": gettext("New product with stock and sale"),
            "form": form,
            "media": self.media + form.media,
            "may_view": self.has_view_permission(request),
        }
        return TemplateResponse(request, "admin/shop/sale/new.html", context)
