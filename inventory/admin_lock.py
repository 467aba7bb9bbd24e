"""An item's lock in Django's admin: who holds it, who waits for it, and a form to break it."""

from __future__ import annotations

from typing import Any

from django import forms
from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.template.response import TemplateResponse
from django.urls import URLPattern, path, reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString

from inventory.models import Item
from inventory.redis import ITEM_LOCK, circuit
from locking.backends.redis_status import LockStatus, status_of

NO_ANSWER = "Redis does not answer"


class BreakForm(forms.Form):
    """Why the lock is broken."""

    reason = forms.CharField(max_length=200, widget=forms.TextInput(attrs={"size": 80}))


class WithLock(admin.ModelAdmin):  # type: ignore[type-arg]
    """Items with their lock: a column, and a page for each item's."""

    @admin.display(description="lock")
    def lock(self, item: Item) -> SafeString:
        """Return the state of the item's lock in a few words, with a link to its page."""
        return format_html('<a href="{}">{}</a>', _lock_page(item.pk), _summary(_status(item)))

    def get_urls(self) -> list[URLPattern]:
        """Add the page of an item's lock."""
        view = self.admin_site.admin_view(self.lock_page)
        return [path("<int:pk>/lock/", view, name="inventory_item_lock"), *super().get_urls()]

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
        context = {
            **self.admin_site.each_context(request),
            "opts": self.opts,
            "title": f"Lock of {item.name}",
            "item": item,
            "status": _status(item),
            "form": form if may_break else None,
        }
        return TemplateResponse(request, "admin/inventory/item/lock.html", context)

    def _break(self, request: HttpRequest, item: Item, reason: str) -> HttpResponse:
        """Revoke the lock, and record who did and why."""
        lock = ITEM_LOCK.make(item.pk)
        seen = _status(item)
        by = f"{request.user.get_username()}: {reason}"
        broken = circuit().ask(lambda: lock.force_release(by), otherwise=None)
        if broken:
            # It may have changed hands between the two calls, hence "last seen".
            held = seen and seen.owner
            last = f", last seen with {held}, token {seen.token}" if seen and held else ""
            self.log_change(request, item, f"Broke the lock{last}: {reason}")
            self.message_user(request, f"Broke the lock{last}.", messages.SUCCESS)
        elif broken is None:
            self.message_user(request, f"{NO_ANSWER}. Please try again.", messages.ERROR)
        else:
            self.message_user(request, "Nobody held the lock.", messages.WARNING)
        return redirect(_lock_page(item.pk))


def _status(item: Item) -> LockStatus | None:
    """Return the state of an item's lock; None if Redis does not answer."""
    lock = ITEM_LOCK.make(item.pk)
    return circuit().ask(lambda: status_of(lock), otherwise=None)


def _summary(status: LockStatus | None) -> str:
    if status is None:
        return NO_ANSWER
    waiting = f", {len(status.waiters)} waiting" if status.waiters else ""
    return (f"held by {status.owner}" if status.owner else "free") + waiting


def _lock_page(item: Any) -> str:
    return reverse("admin:inventory_item_lock", args=[item])
