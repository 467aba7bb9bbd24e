"""What the tests of the API expect of an answer."""

from __future__ import annotations

from shop.tests.messages import title


def refused(answer, status: int, code: str) -> dict[str, object]:
    """The problem that an answer is, after checking that it is a whole one."""
    assert (answer.status_code, answer["Content-Type"]) == (status, "application/problem+json")
    document: dict[str, object] = answer.json()
    assert (document["code"], document["status"]) == (code, status)
    assert document["title"] == title(code)
    assert document["type"]
    return document


def cny(yuan: float) -> dict[str, object]:
    """An amount as the API writes it."""
    return {"amount": round(yuan * 100), "currency": "CNY"}
