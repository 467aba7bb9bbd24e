"""Expected messages."""

from django.utils.translation import override

from shop.refusals import PROBLEMS


def title(code: str, language: str = "en") -> str:
    """Return the message of a code, regardless of the last request's language."""
    with override(language):
        return str(PROBLEMS[code].title)
