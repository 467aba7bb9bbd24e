"""Answers of the API, held against its OpenAPI document and against what a test expects."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from functools import cache
from typing import Any

from django.utils.translation import override
from jsonschema import Draft202012Validator

from shop.pages.docs import description
from shop.refusals import PROBLEMS

METHODS = ("get", "post", "put", "patch", "delete")


@cache
def document() -> Any:
    return json.loads(description())


def operations() -> Iterator[Any]:
    for item in document()["paths"].values():
        yield from (item[method] for method in METHODS if method in item)


def resolve(node: Any) -> Any:
    """Follow a reference into the document's components."""
    while "$ref" in node:
        found = document()
        for part in node["$ref"].removeprefix("#/").split("/"):
            found = found[part]
        node = found
    return node


def check(schema: Any, instance: object) -> None:
    """Hold a JSON value against a schema of the document."""
    # With the components at its root, the schema's references resolve inside it.
    whole = {**schema, "components": document()["components"]}
    checker = Draft202012Validator.FORMAT_CHECKER
    Draft202012Validator(whole, format_checker=checker).validate(instance)


def conforms(method: str, path: str, answer: Any) -> None:
    """Hold an answer against the document, if it has the operation."""
    operation = described(path).get(method.lower())
    if operation is None:
        assert answer.status_code in (404, 405)
        return
    documented = operation["responses"]
    assert str(answer.status_code) in documented, answer.content
    response = resolve(documented[str(answer.status_code)])
    if "content" not in response:
        assert not answer.content
        assert "Content-Type" not in answer.headers
        return
    content = response["content"][answer.headers["Content-Type"]]
    if not answer.streaming:
        check(content["schema"], answer.json())
    assert ("Retry-After" in answer.headers) == ("Retry-After" in response.get("headers", {}))


def described(path: str) -> Any:
    """Return the methods of a request's path; none if the document does not have it."""
    wanted = path.partition("?")[0]
    for template, item in document()["paths"].items():
        if re.fullmatch(re.sub(r"{\w+}", r"\\d+", template), wanted):
            return item
    return {}


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
