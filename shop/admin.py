"""The shop in Django's admin: products and sales to edit, orders and mails to look at."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.db.models import QuerySet
from django.db.models.functions import Now
from django.http import HttpRequest

from inventory.admin_retried import ReadOnly, Retried, StateFilter
from shop import words
from shop.board import why_closed
from shop.models import Mail, Order, OrderLine, Product, Run, Sale

admin.site.site_header = "Flash sale administration"
admin.site.site_title = "Flash sale"
admin.site.index_title = "Catalogue, stock and orders"


@admin.register(Product)
class ProductAdmin(admin.ModelAdmin):
    """Products."""

    list_display = ("name", "slug", "list_price")
    search_fields = ("name", "slug")
    prepopulated_fields = {"slug": ("name",)}


@admin.register(Sale)
class SaleAdmin(admin.ModelAdmin):
    """Sales. They can be paused at any time: the purchase's own transaction looks once more."""

    list_display = (
        *("id", "product", "price", "status", "available", "limit"),
        *("starts_at", "ends_at", "strategy"),
    )
    list_display_links = ("id", "product")
    list_filter = ("paused", "strategy", "starts_at")
    list_select_related = ("product", "item")
    search_fields = ("=id", "product__name", "=item__id")
    autocomplete_fields = ("product", "item")
    ordering = ("-id",)
    actions = ("pause", "resume")
    fieldsets = (
        (None, {"fields": ("product", "item", "price", "limit")}),
        ("Window", {"fields": ("starts_at", "ends_at", "paused")}),
        ("How it is sold", {"fields": ("strategy", "hold")}),
    )

    def get_queryset(self, request: HttpRequest) -> QuerySet[Sale]:
        """With the time of the database, which is the one that sales go by."""
        sales: QuerySet[Sale] = super().get_queryset(request)
        return sales.annotate(now=Now())

    @admin.display(description="status")
    def status(self, sale: Any) -> str:
        """As buyers see it."""
        return why_closed(sale, sale.now) or ("open" if sale.item.available else "sold_out")

    @admin.display(description="available", ordering="item__available")
    def available(self, sale: Sale) -> str:
        """Units left, of those ever stocked."""
        return f"{sale.item.available} of {sale.item.total}"

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        """A sale keeps its item: the orders' reservations are on it."""
        return () if obj is None else ("product", "item")

    @admin.action(description="Pause the selected sales", permissions=["change"])
    def pause(self, request: HttpRequest, chosen: QuerySet[Sale]) -> None:
        """Sell nothing until they are resumed."""
        count = chosen.filter(paused=False).update(paused=True)
        self.message_user(request, f"{count} sales are paused.")

    @admin.action(description="Resume the selected sales", permissions=["change"])
    def resume(self, request: HttpRequest, chosen: QuerySet[Sale]) -> None:
        """Sell again."""
        count = chosen.filter(paused=True).update(paused=False)
        self.message_user(request, f"{count} sales are resumed.")


class LinesInline(admin.TabularInline):
    """What an order is of."""

    model = OrderLine
    fields = readonly_fields = ("sale", "quantity", "amount", "reservation")
    extra = 0
    can_delete = False

    def has_add_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Nobody."""
        return False


@admin.register(Order)
class OrderAdmin(ReadOnly):
    """Orders."""

    list_display = ("id", "what", "buyer", "amount", "status", "pay_before", "created")
    list_filter = ("status", "created")
    list_select_related = ("buyer",)
    search_fields = (
        *("=id", "=buyer__username", "=lines__sale__id"),
        "=lines__reservation__key",
    )
    ordering = ("-id",)
    inlines = (LinesInline,)

    def get_queryset(self, request: HttpRequest) -> QuerySet[Order]:
        """With the lines, in one query for the page."""
        return Order.objects.with_lines()

    @admin.display(description="what")
    def what(self, order: Order) -> str:
        """Quantities and products."""
        return words.listing((line.quantity, line.sale.product.name) for line in order.lines.all())


@admin.register(Mail)
class MailAdmin(Retried):
    """Mails that are owed, and when they were sent."""

    ended = "sent"
    list_display = ("id", "order", "kind", "state", "attempts", "created", "sent", "error")
    list_filter = (StateFilter, "kind")
    search_fields = ("=id", "=order__id")
    ordering = ("-id",)


@admin.register(Run)
class RunAdmin(ReadOnly):
    """What the tasks of Celery did last."""

    list_display = ("task", "last", "took", "result", "runs", "failures", "last_failure", "error")
    ordering = ("task",)

    @admin.display(description="took", ordering="seconds")
    def took(self, run: Run) -> str:
        """How long the last run took."""
        return f"{run.seconds:.3f} s"
