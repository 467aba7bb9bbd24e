"""What tests expect of the API's answers, and of their messages."""

from __future__ import annotations

from django.utils.translation import override

from shop.refusals import PROBLEMS


def refused(answer, status: int, code: str) -> dict[str, object]:
    """The problem that an answer is, after checking that it is a whole one."""
    assert (answer.status_code, answer["Content-Type"]) == (status, "application/problem+json")
    document: dict[str, object] = answer.json()
    assert (document["code"], document["status"]) == (code, status)
    assert document["title"] == title(code)
    assert document["type"]
    return document


def title(code: str, language: str = "en") -> str:
    """Return the message of a code, regardless of the last request's language."""
    with override(language):
        return str(PROBLEMS[code].title)
