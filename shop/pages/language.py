"""The visitor's language."""

from django.utils.translation import get_language


def reads_chinese() -> bool:
    """Whether this request's pages are in Chinese rather than English."""
    return (get_language() or "").startswith("zh")
