"""How the stock of sales fell, as small charts for a list."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from django.db import connection
from django.utils.html import format_html
from django.utils.safestring import SafeString

from shop.catalogue.models import Sale

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
