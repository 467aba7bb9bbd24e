"""The outbox in Django's admin: what waits, what failed and why, and how to try it again."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.db.models import Case, Count, Min, Q, QuerySet, Value, When
from django.http import HttpRequest, HttpResponse

from inventory import outbox
from inventory.admin_readonly import ReadOnly
from inventory.models import OutboxMessage


class StateFilter(admin.SimpleListFilter):
    """A filter by state."""

    title = "state"
    parameter_name = "state"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        """Return all four states."""
        return [(state, state) for state in ("waiting", "put off", "dead", "done")]

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

    @admin.display(description="state", ordering="state")
    def state(self, row: Any) -> str:
        """Return the state: waiting, put off after a failure, dead, or done."""
        return str(row.state)

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

    def has_retry_permission(self, request: HttpRequest) -> bool:
        """Require the permission to change such rows, although the page is read-only."""
        return request.user.has_perm("inventory.change_outboxmessage")

    @admin.action(description="Try again now", permissions=["retry"])
    def retry(self, request: HttpRequest, chosen: QuerySet[Any]) -> None:
        """Make messages that are put off or dead due at once, with all their attempts."""
        for message in chosen.filter(done__isnull=True):
            self.log_change(request, message, "Retried.")
        count = outbox.retry(chosen)
        self.message_user(request, f"{count} will be retried at once.")
