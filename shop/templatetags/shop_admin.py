"""Tags for templates of the admin."""

from __future__ import annotations

from typing import Any

from django import template

from shop.admin.front import figures

register = template.Library()


@register.inclusion_tag("admin/shop/now.html", takes_context=True)
def shop_now(context: Any) -> dict[str, Any]:
    """Show what matters now to the user of the page."""
    return figures(context["request"].user)
