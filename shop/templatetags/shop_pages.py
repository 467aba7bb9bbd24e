"""What the templates need: words, money, moments, pictures."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

from django import template
from django.templatetags.static import static
from django.utils import formats, timezone
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import get_language, to_locale

from shop import messages
from shop.money import display
from shop.pages.language import reads_chinese

register = template.Library()

PICTURES = {
    path.stem
    for path in (Path(__file__).resolve().parent.parent / "static/shop/products").glob("*.svg")
}
"""Slugs of products that have a picture."""

NO_PICTURE = "parcel"


@register.simple_tag
def say(name: str, **values: object) -> str:
    """A text of ``words.PAGES`` in the visitor's language."""
    return messages.say(name, chinese=reads_chinese(), **values)


@register.simple_tag
def get_lang() -> str:
    """The page's language, for ``<html lang>``."""
    return "zh-Hans" if reads_chinese() else "en"


@register.simple_tag
def say_status(prefix: str, status: str) -> str:
    """The text of a status: ``{% say_status "order" order.status %}``."""
    return messages.say(f"{prefix}_{status}", chinese=reads_chinese())


@register.filter
def money(amount: int, currency: str) -> str:
    """An amount in minor units, as the visitor's language writes it."""
    return display(amount, currency, to_locale(get_language() or "en"))


@register.filter
def moment(when: datetime) -> SafeString:
    """A point in time, in UTC until the script writes it in the visitor's own zone."""
    text = formats.date_format(timezone.localtime(when), "DATETIME_FORMAT")
    return format_html('<time datetime="{}" data-local>{} UTC</time>', when.isoformat(), text)


@register.simple_tag
def picture(slug: str) -> str:
    """The address of a product's picture; a parcel where it has none."""
    return static(f"shop/products/{slug if slug in PICTURES else NO_PICTURE}.svg")


@register.simple_tag
def browser_words() -> dict[str, str]:
    """The texts that the pages' script writes, with their braces."""
    chinese = reads_chinese()
    texts = ((name, messages.PAGES[name]) for name in messages.IN_BROWSER)
    return {name: text.zh if chinese else text.en for name, text in texts}
