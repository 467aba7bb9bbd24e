"""Admin page of the lab: the strategies of sales."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.utils.html import format_html_join
from django.utils.safestring import mark_safe

from inventory.checked_admin import CheckedAdmin
from lab.models import SaleStrategy
from lab.strategies import CLASSES


@admin.register(SaleStrategy)
class SaleStrategyAdmin(CheckedAdmin):
    """Sales that are sold in another way; without a row, a sale is sold by `combining`."""

    list_display = ("sale", "name")
    list_filter = ("name",)
    list_select_related = ("sale__product",)
    autocomplete_fields = ("sale",)

    def get_form(self, request: Any, obj: Any = None, change: bool = False, **more: Any) -> Any:
        """Explain the strategies below the field."""
        kinds = ((name, kind.summary) for name, kind in CLASSES.items())
        more["help_texts"] = {"name": format_html_join(mark_safe("<br>"), "{}: {}", kinds)}
        return super().get_form(request, obj, change, **more)
