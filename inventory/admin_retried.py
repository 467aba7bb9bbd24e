"""Base classes for Django's admin: read-only rows, and rows that workers retry until done."""

from __future__ import annotations

from typing import Any, ClassVar

from django.contrib import admin
from django.db.models import Case, Count, Min, Q, QuerySet, Value, When
from django.db.models.functions import Now
from django.http import HttpRequest, HttpResponse


class WrittenByServices:
    """Rows that only services write: all permissions to edit are denied."""

    def has_add_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Deny."""
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Deny."""
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Deny."""
        return False


class ReadOnly(WrittenByServices, admin.ModelAdmin):  # type: ignore[type-arg]
    """A page of rows that only services write."""

    show_full_result_count = False


class StateFilter(admin.SimpleListFilter):
    """A filter by state."""

    title = "state"
    parameter_name = "state"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        """Return all four states."""
        return [(state, state) for state in ("waiting", "put off", "dead", "done")]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        """Return the rows in the chosen state."""
        return queryset.filter(state=self.value()) if self.value() else queryset


class Retried(ReadOnly):
    """Rows that are retried until they are done or dead.

    The page starts with the number of rows that are not done and the age of the oldest.
    """

    ended: ClassVar[str]
    """Name of the column with the time at which a row was done."""

    actions: Any = ("retry",)
    change_list_template = "admin/inventory/retried_change_list.html"

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        """Add the state of each row."""
        state = Case(
            When(**{f"{self.ended}__isnull": False}, then=Value("done")),
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
        undone = self.model._default_manager.filter(**{f"{self.ended}__isnull": True})
        figures = undone.aggregate(
            waiting=Count("pk", filter=Q(dead__isnull=True, attempts=0)),
            put_off=Count("pk", filter=Q(dead__isnull=True, attempts__gt=0)),
            buried=Count("pk", filter=Q(dead__isnull=False)),
            oldest=Min("created", filter=Q(dead__isnull=True)),
        )
        return super().changelist_view(request, {"figures": figures, **(extra_context or {})})

    def has_retry_permission(self, request: HttpRequest) -> bool:
        """Require the permission to change such rows, although the page is read-only."""
        return request.user.has_perm(f"{self.opts.app_label}.change_{self.opts.model_name}")

    @admin.action(description="Try again now", permissions=["retry"])
    def retry(self, request: HttpRequest, chosen: QuerySet[Any]) -> None:
        """Make rows that are put off or dead due at once, with all their attempts."""
        undone = chosen.filter(**{f"{self.ended}__isnull": True})
        for row in undone:
            self.log_change(request, row, "Retried.")
        count = undone.update(dead=None, attempts=0, not_before=Now())
        self.message_user(request, f"{count} will be retried at once.")
