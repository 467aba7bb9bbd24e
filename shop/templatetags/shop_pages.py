"""Tags and filters for templates: labels, money, times, pictures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from decimal import Decimal
from pathlib import Path

from babel.numbers import format_percent
from django import template
from django.conf import settings
from django.templatetags.static import static
from django.utils import formats, timezone
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString
from django.utils.translation import get_language, gettext, to_locale

from shop.money import display
from shop.orders.totals import Fee
from shop.pages import labels

register = template.Library()

PICTURES = {
    path.stem
    for path in (Path(__file__).resolve().parent.parent / "static/shop/products").glob("*.svg")
}
"""Slugs of products that have a picture."""

NO_PICTURE = "parcel"


@register.simple_tag
def shop_name() -> str:
    """Return the shop's name; in the visitor's language, if a catalogue translates it."""
    return gettext(settings.SHOP_NAME)


@register.simple_tag
def label(subject: str, value: str) -> str:
    """Write the label of a value: `{% label "order_status" order.status %}`."""
    return str(labels.label(subject, value))


@register.simple_tag
def said(texts: Sequence[Mapping[str, str]], name: str) -> SafeString:
    """Write a text of a mail in each language: `{% said texts "order" %}`."""
    spoken = [(text["language"], text[name]) for text in texts]
    return format_html_join(" · ", '<span lang="{}">{}</span>', spoken)


@register.simple_tag
def said_plainly(texts: Sequence[Mapping[str, str]], name: str) -> str:
    """Write a text in each language where there is no HTML."""
    return " · ".join(text[name] for text in texts)


@register.filter
def money(amount: int, currency: str) -> str:
    """Format an amount in minor units in the visitor's language."""
    return display(amount, currency, to_locale(get_language() or "en"))


@register.filter
def percent(rate: Decimal) -> str:
    """Format a rate, such as 19, in the visitor's language."""
    return format_percent(rate / 100, "#,##0.##%", locale=to_locale(get_language() or "en"))


@register.simple_tag
def fee_name(fee: Fee) -> str:
    """Write what a fee is for, in the visitor's language."""
    return gettext(fee.name)


@register.filter
def moment(when: datetime) -> SafeString:
    """Format a time in the shop's time zone; the script converts it to the visitor's."""
    local = timezone.localtime(when)
    text = f"{formats.date_format(local, 'DATETIME_FORMAT')} {local:%Z}"
    return format_html('<time datetime="{}" data-local>{}</time>', when.isoformat(), text)


@register.simple_tag
def picture(slug: str) -> str:
    """Return the URL of a product's picture, or of a parcel if it has none."""
    return static(f"shop/products/{slug if slug in PICTURES else NO_PICTURE}.svg")


@register.simple_tag
def script_messages() -> dict[str, str]:
    """Return the messages of `shop.js` in the visitor's language, by name."""
    return {name: str(text) for name, text in labels.SCRIPT.items()}
