"""Stock in Django's admin, to look at and to restock; an item's lock, to see who has it
and to break it; and the outbox, to try again what failed.

Only services write stock. What they keep is read-only here, also for a superuser: a number typed
over a counter would be refused by the database anyway, or worse, would not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, TypeVar

from django import forms
from django.contrib import admin, messages
from django.contrib.admin.models import CHANGE, LogEntry
from django.core.exceptions import PermissionDenied
from django.db.models import Case, Count, Min, Q, QuerySet, Value, When
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.template.response import TemplateResponse
from django.urls import URLPattern, path, reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from inventory import outbox, services
from inventory.checked_admin import CheckedAdmin
from inventory.models import Item, OutboxMessage, Reservation, StockMovement
from inventory.redis import ITEM_LOCK, circuit
from inventory.selling.guard import OutOfStock
from locking import LockUnavailable
from locking.redis_lock import LockStatus, RedisLock

T = TypeVar("T")

NO_ANSWER = _("Redis does not answer")

MAX_UNITS = 1_000_000_000
"""Units per correction; stops a typing error from overflowing the column."""

MAX_TAKERS = 50
"""Rows that a refused correction names."""


def note(request: Any, rows: Iterable[Any], text: str) -> None:
    """Record in the admin's log what its user did with rows, in one statement."""
    LogEntry.objects.log_actions(request.user.pk, rows, CHANGE, text)


class WrittenByServices:
    """Rows that only services write: all permissions to edit are denied."""

    def _never(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    has_add_permission = has_change_permission = has_delete_permission = _never


class ReadOnly(WrittenByServices, CheckedAdmin):
    """A page of rows that only services write; it may have actions."""

    show_full_result_count = False

    def has_act_permission(self, request: HttpRequest) -> bool:
        """Allow an action to users who may change such rows, although the page is read-only."""
        return request.user.has_perm(f"{self.opts.app_label}.change_{self.opts.model_name}")


class NewItemForm(forms.ModelForm):  # type: ignore[type-arg]
    """A new item and its initial stock."""

    units = forms.IntegerField(min_value=0, max_value=MAX_UNITS, label=_("Units in stock"))

    class Meta:
        model = Item
        fields = ("name",)


class CorrectForm(forms.Form):
    """How many units more or less there are, why, and the total that the page showed."""

    units = forms.IntegerField(
        min_value=-MAX_UNITS,
        max_value=MAX_UNITS,
        label=_("Units more"),
        help_text=_("-3 if three units are missing"),
    )
    reason = forms.CharField(
        max_length=500,
        label=_("Reason"),
        help_text=_("The ledger keeps it with your name."),
        widget=forms.TextInput(attrs={"size": 60}),
    )
    total = forms.IntegerField(widget=forms.HiddenInput)

    def clean_units(self) -> int:
        """Refuse a correction by nothing."""
        units: int = self.cleaned_data["units"]
        if not units:
            raise forms.ValidationError(gettext("Enter how many units more, or less than 0."))
        return units


class BreakForm(forms.Form):
    """Why the lock is broken."""

    reason = forms.CharField(
        max_length=200, label=_("Reason"), widget=forms.TextInput(attrs={"size": 80})
    )


@admin.register(Item)
class ItemAdmin(CheckedAdmin):
    """Items: created with their stock, corrected by a form, and otherwise only renamed."""

    list_display = (
        "name",
        "id",
        "available",
        "reserved",
        "total",
        "balanced",
        "lock",
        "correct_link",
    )
    search_fields = ("name", "=id")
    ordering = ("-id",)
    actions = ("correct_selected",)
    readonly_fields = (
        "total",
        "available",
        "reserved",
        "ledger",
        "balanced",
        "fence",
        "version",
        "lock",
    )
    change_form_template = "admin/inventory/item/change_form.html"

    @admin.display(boolean=True, description=_("books balance"))
    def balanced(self, item: Item) -> bool:
        """Return whether the item's counters agree."""
        return item.available + item.reserved == item.total and item.ledger == item.available

    @admin.display(description=_("lock"))
    def lock(self, item: Item) -> SafeString:
        """Return the state of the item's lock in a few words, with a link to its page."""
        return format_html('<a href="{}">{}</a>', _lock_page(item.pk), _summary(_status(item)))

    @admin.display(description="")
    def correct_link(self, item: Item) -> SafeString:
        """Return a link to the form that corrects the stock."""
        return format_html('<a href="{}">{}</a>', _correct_page(item.pk), _("Correct the stock …"))

    @admin.action(
        description=_("Correct the stock of the selected item …"), permissions=["correct"]
    )
    def correct_selected(self, request: HttpRequest, items: QuerySet[Item]) -> HttpResponse | None:
        """Open the form, for one item at a time: amounts rarely agree between items."""
        if items.count() != 1:
            self.message_user(request, gettext("Select one item."), messages.WARNING)
            return None
        return redirect(_correct_page(items.get().pk))

    def get_form(self, request: Any, obj: Any = None, change: bool = False, **more: Any) -> Any:
        """Ask for the stock of a new item."""
        if obj is None:
            more["form"] = NewItemForm
        return super().get_form(request, obj, change, **more)

    def get_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        """Return the fields; a new item has no counters yet."""
        return ("name", "units") if obj is None else ("name", *self.readonly_fields)

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        """Return the counters, which only services write."""
        return () if obj is None else self.readonly_fields

    def save_model(self, request: Any, obj: Item, form: Any, change: bool) -> None:
        """Create through the service, so that the ledger records the first units."""
        if change:
            # Save the name only: the counters of the loaded row may be out of date.
            obj.save(update_fields=["name"])
            return
        obj.pk = services.stock(obj.name, form.cleaned_data["units"]).pk
        obj.refresh_from_db()

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Deny: the ledger refers to the item."""
        return False

    def get_urls(self) -> list[URLPattern]:
        """Add the form that corrects the stock, and the page of an item's lock."""
        own = {"correct": self.correct, "lock": self.lock_page}
        urls = [
            path(
                f"<int:pk>/{name}/", self.admin_site.admin_view(view), name=f"inventory_item_{name}"
            )
            for name, view in own.items()
        ]
        return [*urls, *super().get_urls()]

    def has_correct_permission(self, request: HttpRequest) -> bool:
        """Return whether the user may correct stock."""
        return request.user.has_perm("inventory.correct_stock")

    def takers(self, item: Item) -> list[tuple[str, str]]:
        """Return what holds or has sold the newest units of an item, each with a link.

        A project may name its own rows, such as orders.
        """
        taken = Reservation.objects.filter(item=item).exclude(state=Reservation.State.RELEASED)
        return [
            (str(row), reverse("admin:inventory_reservation_change", args=[row.pk]))
            for row in taken.order_by("-pk")[:MAX_TAKERS]
        ]

    def correct(self, request: HttpRequest, pk: int) -> HttpResponse:
        """Ask for the units and the reason, then correct the stock.

        Runs outside a transaction, unlike the admin's own forms: when the service returns, the
        units are committed.
        """
        item = self.get_object(request, str(pk))
        if item is None or not self.has_correct_permission(request):
            raise PermissionDenied
        form = CorrectForm(request.POST or None, initial={"total": item.total})
        takers: list[tuple[str, str]] = []
        status = 200
        if request.method == "POST" and form.is_valid():
            short = self._correct(request, item, form.cleaned_data)
            if not short:
                may_view = self.has_view_permission(request, item)
                if may_view:
                    return redirect("admin:inventory_item_change", item.pk)
                return redirect("admin:index")
            form.add_error("units", short)
            takers, status = self.takers(item), 409
        title = gettext("Correct the stock of %(item)s") % {"item": item.name}
        answer = self._page(request, "correct", title, item=item, form=form, takers=takers)
        answer.status_code = status
        return answer

    def _page(self, request: HttpRequest, name: str, title: str, **more: Any) -> HttpResponse:
        context = {
            **self.admin_site.each_context(request),
            "opts": self.opts,
            "title": title,
            "row": more["item"],
            "may_view": self.has_view_permission(request),
            **more,
        }
        return TemplateResponse(request, f"admin/inventory/item/{name}.html", context)

    def _correct(self, request: HttpRequest, item: Item, form: dict[str, Any]) -> str:
        """Correct the stock; return how many units too many were to be removed, or nothing."""
        units, reason = form["units"], form["reason"]
        note = f"{request.user.get_username()}: {reason}"
        try:
            level = services.correct(item.pk, units, note, seen=form["total"])
        except services.TotalChanged as changed:
            # A double click or a colleague was first: ask again.
            text = gettext(
                "Nothing was changed: the total is %(total)s by now. Please check again."
            )
            self.message_user(request, text % {"total": changed.total}, messages.WARNING)
            return ""
        except OutOfStock as short:
            return gettext(
                "Only %(available)s units are neither sold nor held: %(excess)s too many. "
                "Cancel or refund orders first."
            ) % {"available": short.available, "excess": -units - short.available}
        text = gettext("%(units)s units: %(available)s are available.") % {
            "units": f"{units:+}",
            "available": level.available,
        }
        self.log_change(request, item, f"{text} {reason}")
        self.message_user(request, text, messages.SUCCESS)
        return ""

    def lock_page(self, request: HttpRequest, pk: int) -> HttpResponse:
        """Show who holds and who waits for an item's lock; break it on a POST with a reason."""
        item = self.get_object(request, str(pk))
        if item is None or not self.has_view_permission(request, item):
            raise PermissionDenied
        may_break = self.has_change_permission(request, item)
        form = BreakForm(request.POST or None)
        if request.method == "POST":
            if not may_break:
                raise PermissionDenied
            if form.is_valid():
                return self._break(request, item, form.cleaned_data["reason"])
        shown = {"status": _status(item), "form": form if may_break else None}
        title = gettext("Lock of %(item)s") % {"item": item.name}
        return self._page(request, "lock", title, item=item, **shown)

    def _break(self, request: HttpRequest, item: Item, reason: str) -> HttpResponse:
        """Revoke the lock, and record who did and why."""
        seen = _status(item)
        by = f"{request.user.get_username()}: {reason}"
        broken = _ask_lock(item, lambda lock: lock.force_release(by))
        if broken:
            # It may have changed hands between the two calls, hence "last seen".
            held = seen and seen.owner
            text = gettext("Broke the lock.")
            if seen and held:
                text = gettext("Broke the lock, last seen with %(holder)s, token %(token)s.")
                text %= {"holder": held, "token": seen.token}
            self.log_change(request, item, f"{text} {reason}")
            self.message_user(request, text, messages.SUCCESS)
        elif broken is None:
            self.message_user(
                request, gettext("Redis does not answer. Please try again."), messages.ERROR
            )
        else:
            self.message_user(request, gettext("Nobody held the lock."), messages.WARNING)
        return redirect(_lock_page(item.pk))


@admin.register(Reservation)
class ReservationAdmin(ReadOnly):
    """Reservations."""

    list_display = ("id", "item", "scope", "buyer", "quantity", "state", "deadline", "created")
    list_filter = ("state", "created")
    list_select_related = ("item",)
    search_fields = ("=id", "=buyer", "=scope", "=key", "=item__id")
    ordering = ("-id",)


@admin.register(StockMovement)
class StockMovementAdmin(ReadOnly):
    """The ledger."""

    list_display = ("id", "item", "delta", "reason", "note", "token", "created")
    list_filter = ("reason", "created")
    list_select_related = ("item",)
    search_fields = ("=id", "=item__id", "item__name")
    ordering = ("-id",)


STATES = {
    "waiting": _("waiting"),
    "put off": _("put off"),
    "dead": _("dead"),
    "done": _("done"),
}
"""Names of a message's states."""


class StateFilter(admin.SimpleListFilter):
    """A filter by state."""

    title = _("state")
    parameter_name = "state"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        """Return all four states."""
        return [(state, str(name)) for state, name in STATES.items()]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        """Return the messages in the chosen state."""
        return queryset.filter(state=self.value()) if self.value() else queryset


@admin.register(OutboxMessage)
class OutboxMessageAdmin(ReadOnly):
    """Messages, which are retried until they are done or dead.

    The page starts with the number of messages that are not done and the age of the oldest.
    """

    list_display = ("id", "topic", "key", "state", "attempts", "error", "not_before", "created")
    list_filter = (StateFilter, "queue", "topic")
    search_fields = ("=id", "=key", "topic", "error")
    ordering = ("-id",)
    actions: Any = ("retry",)
    change_list_template = "admin/inventory/outboxmessage/page.html"

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        """Add the state of each message."""
        state = Case(
            When(done__isnull=False, then=Value("done")),
            When(dead__isnull=False, then=Value("dead")),
            When(attempts__gt=0, then=Value("put off")),
            default=Value("waiting"),
        )
        rows: QuerySet[Any] = super().get_queryset(request).annotate(state=state)
        return rows

    @admin.display(description=_("state"), ordering="state")
    def state(self, row: Any) -> str:
        """Return the state: waiting, put off after a failure, dead, or done."""
        return str(STATES[row.state])

    def changelist_view(self, request: HttpRequest, extra_context: Any = None) -> HttpResponse:
        """Add the totals."""
        undone = OutboxMessage.objects.filter(done__isnull=True)
        figures = undone.aggregate(
            waiting=Count("pk", filter=Q(dead__isnull=True, attempts=0)),
            put_off=Count("pk", filter=Q(dead__isnull=True, attempts__gt=0)),
            buried=Count("pk", filter=Q(dead__isnull=False)),
            oldest=Min("created", filter=Q(dead__isnull=True)),
        )
        return super().changelist_view(request, {"figures": figures, **(extra_context or {})})

    @admin.action(description=_("Try again now"), permissions=["act"])
    def retry(self, request: HttpRequest, chosen: QuerySet[Any]) -> None:
        """Make messages that are put off or dead due at once, with all their attempts."""
        note(request, chosen.filter(done__isnull=True), gettext("Retried."))
        count = outbox.retry(chosen)
        self.message_user(request, gettext("%(count)s will be retried at once.") % {"count": count})


def _correct_page(item: int) -> str:
    return reverse("admin:inventory_item_correct", args=[item])


def _status(item: Item) -> LockStatus | None:
    """Return the state of an item's lock; None if Redis does not answer."""
    return _ask_lock(item, RedisLock.status)


def _ask_lock(item: Item, question: Callable[[RedisLock], T]) -> T | None:
    """Ask an item's lock; None if Redis does not answer, or the project has none."""
    try:
        lock = ITEM_LOCK.make(item.pk)
    except LockUnavailable:
        return None
    return circuit().ask(partial(question, lock), otherwise=None)


def _summary(status: LockStatus | None) -> str:
    if status is None:
        return str(NO_ANSWER)
    text = gettext("free")
    if status.owner:
        text = gettext("held by %(holder)s") % {"holder": status.owner}
    if status.waiters:
        text += gettext(", %(count)s waiting") % {"count": len(status.waiters)}
    return text


def _lock_page(item: Any) -> str:
    return reverse("admin:inventory_item_lock", args=[item])
