"""The admin's pages that hand out a buyer's data, and erase it."""

from __future__ import annotations

from typing import Any

from django.contrib import admin, messages
from django.contrib.admin.models import CHANGE, LogEntry
from django.core.exceptions import PermissionDenied
from django.db.models import QuerySet
from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import redirect
from django.template.response import TemplateResponse
from django.urls import URLPattern, path
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from shop.accounts.models import User
from shop.staff import buyers


class BuyersData(admin.ModelAdmin):  # type: ignore[type-arg]
    """The accounts' admin with the pages about a buyer's data."""

    def get_urls(self) -> list[URLPattern]:
        """Add the pages."""
        view = self.admin_site.admin_view
        return [
            path("<int:pk>/data/", view(self.hand_out), name="accounts_user_data"),
            path("<int:pk>/erase/", view(self.erase), name="accounts_user_erase"),
            *super().get_urls(),
        ]

    def has_hand_out_permission(self, request: HttpRequest) -> bool:
        """Return whether the user may hand out a buyer's data."""
        return request.user.has_perm("accounts.hand_out_user")

    def has_erase_permission(self, request: HttpRequest) -> bool:
        """Return whether the user may erase a buyer."""
        return request.user.has_perm("accounts.erase_user")

    @admin.action(description=_("Hand out the buyer's data"), permissions=["hand_out"])
    def hand_out_selected(self, request: HttpRequest, chosen: QuerySet[User]) -> Any:
        """Send one buyer's data."""
        return self._open(request, chosen, "data")

    @admin.action(description=_("Erase the buyer …"), permissions=["erase"])
    def erase_selected(self, request: HttpRequest, chosen: QuerySet[User]) -> Any:
        """Open the page that erases one buyer."""
        return self._open(request, chosen, "erase")

    def _open(self, request: HttpRequest, chosen: QuerySet[User], page: str) -> Any:
        if chosen.count() != 1:
            self.message_user(request, gettext("Select one buyer."), messages.WARNING)
            return None
        return redirect(f"admin:accounts_user_{page}", chosen.get().pk)

    def hand_out(self, request: HttpRequest, pk: int) -> HttpResponse:
        """Send all that the database knows of a buyer as JSON."""
        if not self.has_hand_out_permission(request):
            raise PermissionDenied
        user = self._get(pk)
        self._note(request, user, gettext("Handed out the data."))
        answer = JsonResponse(buyers.collect(pk), json_dumps_params={"indent": 2})
        answer.headers["Content-Disposition"] = f'attachment; filename="buyer-{pk}.json"'
        return answer

    def erase(self, request: HttpRequest, pk: int) -> HttpResponse:
        """Ask, then erase what identifies a buyer."""
        if not self.has_erase_permission(request):
            raise PermissionDenied
        user = self._get(pk)
        error, status = "", 200
        if request.method == "POST":
            try:
                buyers.erase(pk)
            except buyers.NotErasable as refused:
                error, status = _why(refused), 409
            else:
                user.refresh_from_db()
                self._note(request, user, gettext("Erased."))
                messages.success(request, gettext("The buyer was erased. The orders stay."))
                may_view = self.has_view_permission(request)
                return redirect("admin:accounts_user_changelist" if may_view else "admin:index")
        context = {
            **self.admin_site.each_context(request),
            "opts": self.opts,
            "title": gettext("Erase %(buyer)s") % {"buyer": user},
            "row": user,
            "error": error,
            "may_view": self.has_view_permission(request),
        }
        return TemplateResponse(request, "admin/accounts/user/erase.html", context, status=status)

    def _get(self, pk: int) -> User:
        user = User.objects.filter(pk=pk).first()
        if user is None:
            raise Http404
        return user

    def _note(self, request: Any, user: User, text: str) -> None:
        LogEntry.objects.log_actions(request.user.pk, [user], CHANGE, text, single_object=True)


def _why(refused: buyers.NotErasable) -> str:
    if not refused.orders:
        return gettext("This is an account of staff: take its rights away first.")
    orders = ", ".join(map(str, refused.orders))
    return gettext("These orders are not over yet: %(orders)s") % {"orders": orders}
