"""Admin pages of the lab: strategies of sales, their stock as charts, the runs of tasks."""

from typing import Any

from django.contrib import admin
from django.http import HttpRequest
from django.utils.html import format_html_join
from django.utils.safestring import mark_safe

from inventory.admin_readonly import ReadOnly
from lab.demo.stock_chart import chart, stock_histories
from lab.models import Run, SaleStrategy
from lab.strategies import CLASSES
from shop.admin import SaleAdmin
from shop.catalogue.models import Sale

admin.site.unregister(Sale)


@admin.register(Sale)
class ChartedSaleAdmin(SaleAdmin):
    """Sales, with the stock of each as a chart."""

    def get_changelist_instance(self, request: HttpRequest) -> Any:
        """Add the charts of the sales on the page, by one query."""
        found = super().get_changelist_instance(request)
        histories = stock_histories({sale.item_id for sale in found.result_list})
        for sale in found.result_list:
            sale.levels = histories.get(sale.item_id, [])
        return found

    @admin.display(description="stock", ordering="item__available")
    def stock(self, sale: Any) -> str:
        """Draw the stock since the item's first unit, and write what is left."""
        return chart(sale, sale.levels)


@admin.register(SaleStrategy)
class SaleStrategyAdmin(admin.ModelAdmin):
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


@admin.register(Run)
class RunAdmin(ReadOnly):
    """The last run of each Celery task."""

    list_display = ("task", "last", "took", "result", "runs", "failures", "last_failure", "error")
    ordering = ("task",)

    @admin.display(description="took", ordering="seconds")
    def took(self, run: Run) -> str:
        """Write how long the last run took."""
        return f"{run.seconds:.3f} s"
