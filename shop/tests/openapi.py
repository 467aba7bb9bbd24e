"""The OpenAPI document, and answers held against it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from functools import cache
from typing import Any

from jsonschema import Draft202012Validator

from shop.pages.docs import description

METHODS = ("get", "post", "put", "patch", "delete")


@cache
def document() -> Any:
    """Return the OpenAPI document."""
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
