"""Messages as tests expect them."""

from django.utils.translation import override

from shop.refusals import PROBLEMS


def title(code: str, language: str = "en") -> str:
    """The message of a code, whatever language the last request left active."""
    with override(language):
        return str(PROBLEMS[code].title)
