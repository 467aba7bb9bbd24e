"""The admin's page that stops a sale and gives all of its orders back, and shows its progress."""

from __future__ import annotations

from typing import Any

from django import forms
from django.contrib import admin
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.template.response import TemplateResponse
from django.urls import URLPattern, path
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from shop.admin.acts import reason_field
from shop.catalogue.models import Sale
from shop.orders.models import Order
from shop.orders.transitions import Act
from shop.staff import stopping
from shop.staff.models import SaleStop


class StopForm(forms.Form):
    """Why a sale is stopped, and what is given back."""

    handed_over = forms.BooleanField(
        required=False,
        label=_("Refund orders that were handed over, too"),
        help_text=_("Their units come back, as the sale says."),
    )
    reason = reason_field()


class SaleStops(admin.ModelAdmin):  # type: ignore[type-arg]
    """The sales' admin with the page that stops one."""

    def get_urls(self) -> list[URLPattern]:
        """Add the page."""
        view = self.admin_site.admin_view(self.stop)
        return [path("<int:pk>/stop/", view, name="shop_sale_stop"), *super().get_urls()]

    def stop(self, request: HttpRequest, pk: int) -> HttpResponse:
        """Ask for the reason, then stop the sale; show how far a stop has come."""
        if not request.user.has_perm("shop.stop_sale"):
            raise PermissionDenied
        sale = Sale.objects.select_related("product").filter(pk=pk).first()
        if sale is None:
            raise Http404
        form = StopForm(request.POST if request.method == "POST" else None)
        if request.method == "POST" and form.is_valid():
            self._stop(request, sale, form.cleaned_data)
            return redirect("admin:shop_sale_stop", pk)
        last = SaleStop.objects.filter(sale=pk).order_by("-pk").first()
        statuses = dict(Order._meta.get_field("status").flatchoices)
        counts = stopping.orders_by_status(pk)
        context = {
            **self.admin_site.each_context(request),
            "opts": self.opts,
            "title": gettext("Stop %(sale)s") % {"sale": sale},
            "row": sale,
            "form": form,
            "last": last,
            "progress": stopping.progress(last) if last else None,
            "orders": [
                (statuses[status], counts[status]) for status in statuses if status in counts
            ],
            "may_view": self.has_view_permission(request),
        }
        return TemplateResponse(request, "admin/shop/sale/stop.html", context)

    def _stop(self, request: HttpRequest, sale: Sale, given: dict[str, Any]) -> None:
        act = Act(request.user.get_username(), given["reason"])
        stopping.stop_sale(sale.pk, act, handed_over=given["handed_over"])
        text = gettext("Stopped, and its orders given back: %(reason)s")
        self.log_change(request, sale, text % {"reason": given["reason"]})
