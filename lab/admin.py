"""Admin pages of the lab: strategies of sales, their stock as charts, the runs of tasks."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from django.contrib import admin
from django.db import connection
from django.http import HttpRequest
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString, mark_safe

from inventory.admin import ReadOnly
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


POINTS = 30
"""Points of a chart, from the first to the last movement of an item's stock."""

WIDTH, HEIGHT = 90, 20

_LEVELS = """
SELECT item_id, bucket, sum(sum(delta)) OVER (PARTITION BY item_id ORDER BY bucket) FROM (
    SELECT item_id, delta, floor(%(points)s * (
        extract(epoch FROM created - min(created) OVER (PARTITION BY item_id))
        / (1 + extract(epoch FROM now() - min(created) OVER (PARTITION BY item_id)))
    ))::int AS bucket
    FROM inventory_stockmovement WHERE item_id = ANY(%(items)s)
) AS movement
GROUP BY item_id, bucket ORDER BY item_id, bucket
"""


def stock_histories(items: Collection[int]) -> dict[int, list[int]]:
    """Return the units available of items at `POINTS` moments, from their creation until now."""
    with connection.cursor() as cursor:
        cursor.execute(_LEVELS, {"points": POINTS, "items": list(items)})
        found: dict[int, dict[int, int]] = {}
        for item, bucket, level in cursor:
            found.setdefault(item, {})[bucket] = int(level)
    return {item: _filled(levels) for item, levels in found.items()}


def chart(sale: Sale, levels: Sequence[int]) -> SafeString:
    """Draw the stock of a sale as a line, with what is available of the total."""
    most = max(1, sale.item.total, *levels)
    step = WIDTH / max(1, len(levels) - 1)
    points = " ".join(
        f"{place * step:.1f},{1 + (HEIGHT - 2) * (1 - level / most):.1f}"
        for place, level in enumerate(levels)
    )
    return format_html(
        '<svg width="{}" height="{}" aria-hidden="true"><polyline points="{}" fill="none" '
        'stroke="currentColor"/></svg> {} of {}',
        *(WIDTH, HEIGHT, points, sale.item.available, sale.item.total),
    )


def _filled(levels: dict[int, int]) -> list[int]:
    """Levels of every moment; where nothing moved, as before."""
    level, filled = 0, []
    for bucket in range(POINTS):
        level = levels.get(bucket, level)
        filled.append(level)
    return filled
