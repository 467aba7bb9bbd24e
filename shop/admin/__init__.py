"""The shop in Django's admin: edit products and sales, view orders."""

from __future__ import annotations

import logging
from datetime import timedelta
from typing import Any, ClassVar

from django import forms
from django.conf import settings
from django.contrib import admin, messages
from django.contrib.admin.models import LogEntry
from django.contrib.admin.options import IncorrectLookupParameters
from django.contrib.auth.admin import GroupAdmin, UserAdmin
from django.contrib.auth.forms import UserChangeForm
from django.contrib.auth.models import Group
from django.core.exceptions import BadRequest, PermissionDenied
from django.db import transaction
from django.db.models import QuerySet
from django.db.models.functions import Now
from django.http import HttpRequest, StreamingHttpResponse
from django.urls import URLPattern, path, reverse
from django.utils.formats import date_format
from django.utils.text import format_lazy
from django.utils.timezone import localtime
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _
from django_otp.plugins.otp_static.models import StaticDevice
from django_otp.plugins.otp_totp.models import TOTPDevice

from inventory.admin import MAX_TAKERS, ItemAdmin, ReadOnly, WrittenByServices, note
from inventory.checked_admin import CheckedAdmin
from inventory.models import Item, Reservation
from shop import orders, payments
from shop.accounts.addresses import validate_mailable
from shop.accounts.models import User
from shop.admin.acts import OrderActs
from shop.admin.buyers import BuyersData
from shop.admin.export import rows
from shop.admin.new_sale import NewSales
from shop.admin.sales import SaleStops
from shop.admin.search import find_orders
from shop.audit.report import Alert
from shop.catalogue.models import Product, ProductText, Sale
from shop.catalogue.sale_cache import why_closed
from shop.money import plain, to_major, to_minor
from shop.orders.models import Invoice, Order, OrderEvent, OrderFee, OrderLine
from shop.pages.labels import label
from shop.payments.models import Discrepancy, Payment, Refund
from shop.staff.models import SaleStop

log = logging.getLogger(__name__)

admin.site.site_header = format_lazy(_("{name} administration"), name=settings.SHOP_NAME)
admin.site.site_title = settings.SHOP_NAME
admin.site.index_title = _("Catalogue, stock and orders")
admin.site.index_template = "admin/shop/index.html"


def lock_rows(chosen: QuerySet[Any]) -> list[Any]:
    """Lock rows, in a transaction, so that the second of two clicks finds none that are left."""
    return list(chosen.order_by("pk").select_for_update(of=("self",), no_key=True))


SHOWN = 20
"""Orders that a message names at most."""

MINUTE = timedelta(minutes=1)


class ChangesOnly(forms.ModelForm):  # type: ignore[type-arg]
    """A form that writes only what was changed on its page.

    The page carries the values that it showed. A field that its user has not changed keeps what
    somebody else has saved meanwhile: a deactivated account stays so, and a paused sale.
    """

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        if self.instance.pk:
            has_initial = any(name.startswith("initial-") for name in self.data)
            for field in self.fields.values():
                field.show_hidden_initial = has_initial or not self.is_bound

    def keep_unchanged(self, cleaned: dict[str, Any], *, but: frozenset[str] = frozenset()) -> None:
        """Put the present values in place of those that the page did not change.

        Args:
            cleaned: the form's values, by the fields' names.
            but: fields that follow from a changed one.
        """
        if not self.instance.pk:
            return
        for name in cleaned.keys() - set(self.changed_data) - but:
            if name in self.instance_fields:
                value = getattr(self.instance, name)
                cleaned[name] = value.all() if name in self.several else value

    @property
    def changed_fields(self) -> list[str]:
        """Names of the model's own columns that the page changed."""
        columns = {field.name for field in self.instance._meta.concrete_fields}
        return [name for name in self.changed_data if name in columns]

    @property
    def several(self) -> set[str]:
        """Names of the fields that hold several rows."""
        return {field.name for field in self.instance._meta.many_to_many}

    @property
    def instance_fields(self) -> set[str]:
        """Names of the model's own fields."""
        return {field.name for field in self.instance._meta.get_fields()}


class ChangesAdmin(CheckedAdmin):
    """Rows whose form is a `ChangesOnly`; no other column is written."""

    def save_model(self, request: HttpRequest, obj: Any, form: Any, change: bool) -> None:
        """Write the changed columns, or a new row."""
        obj.save(update_fields=form.changed_fields if change else None)


class PriceForm(ChangesOnly):
    """A form that shows a price in major units (999.00) and stores it in minor units."""

    priced: ClassVar[str]

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        if self.instance.pk:
            stored = getattr(self.instance, self.priced)
            self.initial[self.priced] = to_major(stored, self.instance.currency)

    def clean(self) -> dict[str, Any]:
        """Convert the price, once its currency is known; leave alone what nobody changed."""
        cleaned: dict[str, Any] = super().clean() or self.cleaned_data
        price, currency = cleaned.get(self.priced), cleaned.get("currency", self.instance.currency)
        if price is not None:
            try:
                cleaned[self.priced] = to_minor(price, currency)
            except ValueError as error:
                self.add_error(self.priced, str(error))
        # A form shows times without their microseconds: saving it would move a sale's window.
        self.keep_unchanged(cleaned, but=self.moved)
        return cleaned

    @property
    def moved(self) -> frozenset[str]:
        """The price, if only its currency was changed: it is another number of minor units then."""
        return frozenset({self.priced} if "currency" in self.changed_data else ())

    @property
    def changed_fields(self) -> list[str]:
        """Names of the model's own columns that the page changed."""
        return [*{*super().changed_fields, *self.moved}]


class UserForm(ChangesOnly, UserChangeForm):  # type: ignore[type-arg]
    """An account."""

    def clean_email(self) -> str:
        """Refuse an address that mail servers may not take, as at the sign-up."""
        address: str = self.cleaned_data["email"]
        if address and "email" in self.changed_data:
            validate_mailable(address)
        return address

    def clean(self) -> dict[str, Any]:
        """Leave alone what nobody changed."""
        cleaned: dict[str, Any] = super().clean() or self.cleaned_data
        self.keep_unchanged(cleaned)
        return cleaned


admin.site.unregister(Group)

# `manage.py second_factor` gives them out; a page would show the keys to others.
admin.site.unregister([TOTPDevice, StaticDevice])


@admin.register(Group)
class CheckedGroupAdmin(CheckedAdmin, GroupAdmin):
    """Groups of operators with their permissions."""


@admin.register(User)
class AccountAdmin(BuyersData, ChangesAdmin, UserAdmin):  # type: ignore[type-arg]
    """Accounts of buyers and operators."""

    form = UserForm
    actions = ("hand_out_selected", "erase_selected")
    change_form_template = "admin/accounts/user/change_form.html"


class ProductForm(PriceForm):
    """A product."""

    priced = "list_price"
    list_price = forms.DecimalField(min_value=0, label=_("List price"))


class SaleForm(PriceForm):
    """A sale."""

    priced = "price"
    price = forms.DecimalField(min_value=0, label=_("Price"), help_text=_("of a unit"))
    short_hold = forms.BooleanField(
        required=False,
        label=_("Less than a minute to pay"),
        help_text=_("only for such a time to pay"),
    )

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        if "action_hold" in self.fields:
            self.fields["action_hold"].required = False  # a form without it keeps what is there
        if "hold" in self.fields:
            self.fields["hold"].help_text = _(
                "time to pay, before the units go back: 15:00 is a quarter of an hour"
            )

    def clean(self) -> dict[str, Any]:
        """Refuse a time to pay of less than a minute that was not meant: `15` is 15 seconds."""
        cleaned = super().clean()
        hold = cleaned.get("hold")
        meant = cleaned.get("short_hold") or "hold" not in self.changed_data
        if hold is not None and hold < MINUTE and not meant:
            self.add_error(
                "hold",
                gettext(
                    "That is %(seconds)s seconds: write 15:00 for a quarter of an hour, "
                    "or tick the box below."
                )
                % {"seconds": f"{hold.total_seconds():g}"},
            )
        stops = SaleStop.objects.filter(sale=self.instance.pk, finished=None)
        if "paused" in self.changed_data and not cleaned.get("paused") and stops.exists():
            self.add_error("paused", gettext("The sale's orders are being cancelled and refunded."))
        return cleaned


def amount(name: str, description: Any) -> Any:
    """Make a column of amounts, in the currency of the row or of the order that it belongs to."""

    @admin.display(description=description, ordering=name)
    def column(_: object, row: Any) -> str:
        value = getattr(row, name)
        priced = row if hasattr(row, "currency") else row.order
        return plain(value, priced.currency) if value is not None else "-"

    return column


class PricedAdmin(ChangesAdmin):
    """Rows with a price, which `money` shows in lists and to users who may only look."""

    form: type[PriceForm]

    def get_fieldsets(self, request: HttpRequest, obj: Any = None) -> Any:
        """Leave the price to its form; without one, Django would show minor units."""
        shown: Any = super().get_fieldsets(request, obj)
        if obj is None or self.has_change_permission(request, obj):
            return shown
        money = {self.form.priced: "money"}
        return [(title, {"fields": [money.get(n, n) for n in of["fields"]]}) for title, of in shown]


class TextForm(forms.ModelForm):  # type: ignore[type-arg]
    """A product's texts in one of the shop's languages but the first."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self.fields["language"] = forms.ChoiceField(
            choices=settings.LANGUAGES[1:], label=_("Language")
        )
        self.fields["description"].widget.attrs = {"rows": 3, "cols": 40}


class TextsInline(admin.TabularInline):  # type: ignore[type-arg]
    """A product's texts in the shop's other languages."""

    model = ProductText
    form = TextForm
    verbose_name = verbose_name_plural = _("in other languages")

    def get_max_num(self, request: HttpRequest, obj: Any = None, **more: Any) -> int:
        """Return how many other languages the shop speaks."""
        return len(settings.LANGUAGES) - 1

    get_extra = get_max_num


@admin.register(Product)
class ProductAdmin(PricedAdmin):
    """Products."""

    form = ProductForm
    inlines = (TextsInline,)
    list_display = ("name", "slug", "money")
    money = amount("list_price", _("list price"))
    search_fields = ("name", "slug")
    ordering = ("name",)
    prepopulated_fields = {"slug": ("name",)}


@admin.register(Sale)
class SaleAdmin(NewSales, SaleStops, PricedAdmin):
    """Sales. Pausing is safe at any time: each purchase's transaction checks the sale."""

    form = SaleForm

    list_display = ("product", "status", "stock", "money", "limit", "window")
    list_per_page = 25
    list_filter = ("paused", "listed", "starts_at")
    list_select_related = ("product", "item")
    search_fields = ("=id", "product__name", "=item__id")
    autocomplete_fields = ("product", "item")
    ordering = ("-id",)
    actions = ("pause", "resume")
    fieldsets = (
        (
            None,
            {
                "fields": (
                    "product",
                    "item",
                    "price",
                    "currency",
                    "limit",
                    "hold",
                    "short_hold",
                    "action_hold",
                )
            },
        ),
        (_("Window"), {"fields": ("starts_at", "ends_at", "paused", "listed")}),
        (_("Earlier for some"), {"fields": ("early_starts_at", "early_group", "early_code")}),
        (_("What comes back"), {"fields": ("restock_cancelled", "restock_returned")}),
    )
    money = amount("price", _("price"))

    def get_queryset(self, request: HttpRequest) -> QuerySet[Sale]:
        """Add the database's time, which opens and ends sales."""
        sales: QuerySet[Sale] = super().get_queryset(request)
        return sales.annotate(now=Now())

    @admin.display(description=_("status"))
    def status(self, sale: Any) -> str:
        """Return the status that buyers see."""
        code = why_closed(sale, sale.now) or ("open" if sale.item.available else "sold_out")
        return str(label("sale_status", code))

    @admin.display(description=_("stock"), ordering="item__available")
    def stock(self, sale: Sale) -> str:
        """Write how many units are left, and of how many."""
        return gettext("%(available)s of %(total)s") % {
            "available": sale.item.available,
            "total": sale.item.total,
        }

    @admin.display(description=_("window"), ordering="starts_at")
    def window(self, sale: Sale) -> str:
        """Write the window; the day of its end only if that is another one."""
        starts, ends = localtime(sale.starts_at), localtime(sale.ends_at)
        end = "H:i" if starts.date() == ends.date() else "j M H:i"
        return f"{date_format(starts, 'j M H:i')} – {date_format(ends, end)}"

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        """Make fields that orders depend on read-only: product, item and currency."""
        return () if obj is None else ("product", "item", "currency")

    @admin.action(description=_("Pause the selected sales"), permissions=["change"])
    def pause(self, request: HttpRequest, chosen: QuerySet[Sale]) -> None:
        """Pause sales."""
        self._set(request, chosen, _("Paused."), paused=True)

    @admin.action(description=_("Resume the selected sales"), permissions=["change"])
    def resume(self, request: HttpRequest, chosen: QuerySet[Sale]) -> None:
        """Resume paused sales."""
        self._set(request, chosen, _("Resumed."), paused=False)

    def _set(
        self, request: HttpRequest, chosen: QuerySet[Sale], done: Any, *, paused: bool
    ) -> None:
        others = chosen.filter(paused=not paused)
        if not paused:
            others = others.exclude(stops__in=SaleStop.objects.filter(finished=None))
        with transaction.atomic():
            rows = lock_rows(others)
            note(request, rows, str(done))
            count = Sale.objects.filter(pk__in=[row.pk for row in rows]).update(paused=paused)
        self.message_user(request, f"{done} {count}")


admin.site.unregister(Item)


@admin.register(Item)
class StockAdmin(ItemAdmin):
    """Items, whose units are in orders."""

    def takers(self, item: Item) -> list[tuple[str, str]]:
        """Return the newest orders that hold or have units of an item; not whose they are."""
        taken = OrderLine.objects.filter(reservation__item=item).exclude(
            reservation__state=Reservation.State.RELEASED
        )
        lines = taken.select_related("order", "reservation").order_by("-pk")[:MAX_TAKERS]
        return [
            (
                gettext("%(order)s: %(units)s, %(status)s")
                % {
                    "order": line.order,
                    "units": line.live,
                    "status": line.order.get_status_display(),
                },
                reverse("admin:shop_order_change", args=[line.order_id]),
            )
            for line in lines
        ]


class RowsInline(WrittenByServices, admin.TabularInline):  # type: ignore[type-arg]
    """Rows of an order that only services write."""

    extra = 0
    money = amount("amount", _("amount"))


class LinesInline(RowsInline):
    """The lines of an order."""

    model = OrderLine
    fields = ("sale", "quantity", "back", "money", "tax_rate", "tax", "reservation")
    readonly_fields = ("back", "money", "tax")
    tax = amount("tax", _("tax"))

    @admin.display(description=_("returned"))
    def back(self, line: OrderLine) -> int:
        """Return the units that were given back."""
        return line.returned

    def get_queryset(self, request: HttpRequest) -> QuerySet[OrderLine]:
        """Load what each row names in the same query."""
        rows: QuerySet[OrderLine] = super().get_queryset(request)
        return rows.select_related("order", "sale__product", "reservation__item")


class FeesInline(RowsInline):
    """The fees of an order."""

    model = OrderFee
    fields = ("named", "money", "tax_rate", "tax")
    readonly_fields = ("named", "money", "tax")
    tax = amount("tax", _("tax"))

    @admin.display(description=_("name"))
    def named(self, fee: OrderFee) -> str:
        """Return its name in the visitor's language."""
        return fee.label

    def get_queryset(self, request: HttpRequest) -> QuerySet[OrderFee]:
        """Load the order, whose currency each row is in, in the same query."""
        rows: QuerySet[OrderFee] = super().get_queryset(request)
        return rows.select_related("order")


class InvoicesInline(RowsInline):
    """The invoice and the credit notes of an order."""

    model = Invoice
    fields = ("created", "series", "number", "money")
    readonly_fields = ("money",)

    def get_queryset(self, request: HttpRequest) -> QuerySet[Invoice]:
        """Load the order, whose currency each row is in, in the same query."""
        rows: QuerySet[Invoice] = super().get_queryset(request)
        return rows.select_related("order")


class EventsInline(RowsInline):
    """The events of an order."""

    model = OrderEvent
    verbose_name_plural = _("timeline")
    fields = ("created", "kind", "quantity", "money", "line", "actor", "reason")
    readonly_fields = ("money",)

    def get_queryset(self, request: HttpRequest) -> QuerySet[OrderEvent]:
        """Load what each row names in the same query."""
        rows: QuerySet[OrderEvent] = super().get_queryset(request)
        return rows.select_related("order", "line")


class PaymentsInline(RowsInline):
    """The payments of an order."""

    model = Payment
    fields = ("created", "state", "money", "back", "intent", "settled")
    readonly_fields = ("money", "back")
    back = amount("owed_back", _("owed back"))

    def get_queryset(self, request: HttpRequest) -> QuerySet[Payment]:
        """Load what each row names in the same query."""
        rows: QuerySet[Payment] = super().get_queryset(request)
        return rows.select_related("order")


@admin.register(Order)
class OrderAdmin(OrderActs):
    """Orders."""

    list_display = ("id", "what", "buyer", "money", "status", "pay_before", "created")
    list_filter = ("status", "created")
    list_select_related = ("buyer",)
    view_on_site = False  # only the buyer sees that page
    search_fields = ("=id",)  # that there is a search; see `get_search_results`
    ordering = ("-id",)
    fields = ("buyer", *Order.DETAILS, "money", "back", "status", "pay_before", "created")
    readonly_fields = ("money", "back")
    inlines = (LinesInline, FeesInline, InvoicesInline, EventsInline, PaymentsInline)
    actions = ("fulfil",)
    money = amount("amount", _("amount"))
    back = amount("refunded", _("refunded"))

    def get_queryset(self, request: HttpRequest) -> QuerySet[Order]:
        """Load the lines in one query per page."""
        return Order.objects.with_lines()

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Any], search_term: str
    ) -> tuple[QuerySet[Any], bool]:
        """Find orders by everything that somebody may know of one."""
        term = search_term.strip()
        return (find_orders(queryset, term) if term else queryset), False

    def get_urls(self) -> list[URLPattern]:
        """Add the export."""
        view = self.admin_site.admin_view(self.export)
        return [path("export/", view, name="shop_order_export"), *super().get_urls()]

    def export(self, request: HttpRequest) -> StreamingHttpResponse:
        """Send the orders that the list's filters and search leave as CSV."""
        if not request.user.has_perm("shop.export_order"):
            raise PermissionDenied
        try:
            chosen = self.get_changelist_instance(request).get_queryset(request)
        except IncorrectLookupParameters as error:
            raise BadRequest("no such filter") from error
        chosen = chosen.prefetch_related(None)
        log.info("%s exports orders: %s", request.user, request.GET.urlencode() or "all")
        headers = {"Content-Disposition": 'attachment; filename="orders.csv"'}
        return StreamingHttpResponse(rows(chosen), "text/csv; charset=utf-8", headers=headers)

    @admin.display(description=_("contents"))
    def what(self, order: Order) -> str:
        """Return quantities and products."""
        return order.contents

    @admin.action(description=_("Mark as handed over"), permissions=["act"])
    def fulfil(self, request: HttpRequest, chosen: QuerySet[Order]) -> None:
        """Mark paid orders as handed over; leave others alone."""
        rows = chosen.prefetch_related(None)
        with transaction.atomic():
            left = orders.fulfil([row.pk for row in rows])
            done = [row for row in rows if row.pk not in left]
            note(request, done, gettext("Handed over."))
        self.message_user(request, gettext("Orders handed over: %(count)s.") % {"count": len(done)})
        statuses = dict(Order._meta.get_field("status").flatchoices)
        for status in dict.fromkeys(left.values()):
            numbers = [str(pk) for pk, each in left.items() if each == status]
            named = ", ".join(numbers[:SHOWN])
            if len(numbers) > SHOWN:
                named += gettext(" and %(count)s more") % {"count": len(numbers) - SHOWN}
            if status == Order.Status.FULFILLED:
                text = gettext("Not handed over, handed over before: %(orders)s.")
            else:
                text = gettext("Not handed over, because %(status)s: %(orders)s.")
            values = {"orders": named, "status": statuses[status]}
            self.message_user(request, text % values, messages.WARNING)


@admin.register(Refund)
class RefundAdmin(ReadOnly):
    """Refunds."""

    list_display = ("id", "order", "money", "reason", "state", "attempts", "created", "settled")
    list_filter = ("state", "reason", "created")
    list_select_related = ("payment__order",)
    search_fields = ("=id", "=payment__order__id", "=number", "=key")
    ordering = ("-id",)
    fields = (
        "payment",
        "money",
        "reason",
        "state",
        "key",
        "number",
        "tries",
        "created",
        "settled",
        "attempts",
        "not_before",
    )
    readonly_fields = ("money",)
    actions = ("retry",)
    money = amount("amount", _("amount"))

    @admin.display(description=_("order"))
    def order(self, refund: Refund) -> int:
        """Return the id of the refunded order."""
        return refund.payment.order_id

    @admin.action(description=_("Try failed refunds again"), permissions=["act"])
    def retry(self, request: HttpRequest, chosen: QuerySet[Refund]) -> None:
        """Request failed refunds again, each as a new refund."""
        with transaction.atomic():
            failed = lock_rows(chosen.filter(state=Refund.State.FAILED))
            note(request, failed, gettext("Requested again."))
            count = payments.retry(Refund.objects.filter(pk__in=[row.pk for row in failed]))
        self.message_user(
            request, gettext("Refunds requested again: %(count)s.") % {"count": count}
        )


@admin.register(Discrepancy)
class DiscrepancyAdmin(ReadOnly):
    """What the payment provider says against the books, open ones first."""

    list_display = ("text", "kind", "opened", "closed")
    list_filter = (("closed", admin.EmptyFieldListFilter), "kind", "opened")
    list_select_related = ("payment",)
    search_fields = ("=payment__order__id", "=payment__intent", "=number", "text")
    ordering = ("-closed", "-opened")  # PostgreSQL sorts nulls, the open ones, first
    actions = ("close",)

    @admin.action(description=_("Close: decided, and done at the provider"), permissions=["act"])
    def close(self, request: HttpRequest, chosen: QuerySet[Discrepancy]) -> None:
        """Close discrepancies; the next audit closes their alerts."""
        with transaction.atomic():
            still_open = lock_rows(chosen.filter(closed=None))
            note(request, still_open, gettext("Closed."))
            ids = [row.pk for row in still_open]
            count = Discrepancy.objects.filter(pk__in=ids).update(closed=Now())
        self.message_user(request, gettext("Discrepancies closed: %(count)s.") % {"count": count})


@admin.register(Alert)
class AlertAdmin(ReadOnly):
    """Alerts of the audit, open ones first."""

    list_display = ("text", "gone", "opened", "closed")
    list_filter = (("closed", admin.EmptyFieldListFilter), "opened")
    search_fields = ("text",)
    ordering = ("-closed", "-opened")  # PostgreSQL sorts nulls, the open alerts, first

    @admin.display(boolean=True, description=_("gone"), ordering="closed")
    def gone(self, alert: Alert) -> bool:
        """Return whether the last audit no longer found the problem."""
        return alert.closed is not None


@admin.register(LogEntry)
class LogEntryAdmin(ReadOnly):
    """Who changed what in the admin, and when; nobody can change or delete an entry here."""

    list_display = ("action_time", "user", "content_type", "object_repr", "change_message")
    list_filter = ("action_time", "action_flag", "content_type")
    list_select_related = ("user", "content_type")
    search_fields = ("=user__username", "object_repr", "=object_id")
    ordering = ("-action_time",)
