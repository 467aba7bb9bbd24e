"""The OpenAPI document, generated from the operations that are routed."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from http import HTTPStatus
from typing import Any, NamedTuple

import msgspec
from django.conf import settings
from django.urls import URLPattern, URLResolver, get_resolver
from django.utils.translation import override

from shop.api import problems
from shop.api.operations import JSON_LINES, Answer, Operation
from shop.api.schemas import Id, Key, Problem, Request
from shop.refusals import PROBLEMS

Json = dict[str, Any]
Schemas = Mapping[Any, Json]

INFO = {
    "version": "1",
    "summary": "Buying in sales whose stock is never oversold.",
    "description": inspect.cleandoc(
        """
        Get a buyer token, look at a sale, order in it, pay.

        Every refusal is a problem (RFC 9457) with a stable `code`; its text follows
        `Accept-Language`. A method that a path does not have is answered with
        405 `method_not_allowed`. Amounts are integers in the currency's minor unit. A body is read
        as JSON, whatever its `Content-Type` says, and a call whose body is shorter than its
        `Content-Length` is not executed.

        The web server itself answers some requests before the API sees them, with a short HTML
        page: 400 for invalid HTTP or a missing `Host`, 414 for a request line of more than 4,094
        bytes, 417 for an unknown `Expect`, 431 for a header of more than 8,190 bytes or more than
        100 headers, 501 for an unknown `Transfer-Encoding`. It closes connections whose requests do
        not arrive within seconds.

        **Retrying.** Make a UUID for each purchase, send it as `Idempotency-Key`, and send the same
        one when you ask again. However often it is asked, a purchase happens at most once: after a
        time-out, a broken connection, a 500 or 503 `outcome_unknown`, the same request tells what
        came of it.
        """
    ),
    "license": {"name": "MIT", "identifier": "MIT"},
}

TAGS = {
    "Sales": "What is sold, when, and how much is left.",
    "Orders": "From the purchase to the refund.",
    "Buyers": "Who buys.",
    "Payments": "Between the payment provider and the shop; not for buyers.",
}
"""Tags with their descriptions, in the document's order. Another app may add its own; those that no
routed operation uses are left out."""

BUYER = {
    "type": "http",
    "scheme": "bearer",
    "description": "A buyer token, from `POST /api/v1/tokens` or the account page.",
}

LANGUAGE = {
    "name": "Accept-Language",
    "in": "header",
    "description": "Problems are in the language of the shop that it prefers.",
    "schema": {"type": "string"},
}

RETRY_AFTER = {
    "description": "Seconds after which to ask again.",
    "schema": {"type": "integer", "minimum": 1},
}

CACHE_CONTROL = {
    "description": "For how many seconds any cache may repeat the answer.",
    "schema": {"type": "string", "examples": ["public, max-age=1"]},
}

HTML: Json = {"text/html": {"schema": {"type": "string"}}}

SERVERS_OWN = {
    "414": {"description": "The request line is too long.", "content": HTML},
    "431": {"description": "A header is too long, or there are too many.", "content": HTML},
}
"""What the web server answers before the API sees the request, in addition to 400."""


class Route(NamedTuple):
    """An operation's path as the URLconf writes it, its view and its description."""

    path: str
    view: Callable[..., Any]
    operation: Operation


def _routes(patterns: Iterable[Any], prefix: str = "/") -> Iterator[Route]:
    """Return the operations that URL patterns lead to."""
    for entry in patterns:
        path = prefix + str(entry.pattern)
        if isinstance(entry, URLResolver):
            yield from _routes(entry.url_patterns, path)
        elif isinstance(entry, URLPattern) and hasattr(entry.callback, "operation"):
            views: dict[str, Any] = entry.callback.methods  # type: ignore[attr-defined]
            for view in views.values():
                yield Route(path, view, view.operation)


def document() -> Json:
    """Describe every operation that a URL leads to."""
    routed = list(_routes(get_resolver().url_patterns))
    schemas, components = _schemas(route.operation for route in routed)
    codes = [_codes(route) for route in routed]
    used = {route.operation.tag for route in routed}
    return {
        "openapi": "3.1.0",
        "info": {"title": settings.SHOP_NAME, **INFO},
        "servers": [{"url": "/", "description": "this shop"}],
        "tags": [
            {"name": name, "description": text} for name, text in TAGS.items() if name in used
        ],
        "paths": _paths(routed, schemas),
        "components": {
            "securitySchemes": {"buyer": BUYER},
            "parameters": {"Language": LANGUAGE},
            "headers": {"RetryAfter": RETRY_AFTER, "CacheControl": CACHE_CONTROL},
            "responses": SERVERS_OWN
            | {
                _name(together): _refusals(together)
                for code in codes
                for together in _by_status(code).values()
            },
            "schemas": components,
        },
    }


def _paths(routed: Iterable[Route], schemas: Schemas) -> Json:
    paths: Json = {}
    for route in routed:
        methods = paths.setdefault(_template(route.path), {})
        methods[route.operation.method.lower()] = _operation(route, schemas)
    return paths


def _schemas(operations: Iterable[Operation]) -> tuple[dict[Any, Json], Json]:
    """Return the JSON Schemas of types, and the components for structs, which those refer to."""
    used = dict.fromkeys(kind for operation in operations for kind in _types(operation))
    kinds = [*used, Problem, Id, Key]
    found, components = msgspec.json.schema_components(
        kinds, ref_template="#/components/schemas/{name}"
    )
    for kind in used:
        if issubclass(kind, Request):
            components[kind.__name__] |= kind.also
    for component in components.values():
        component["description"] = inspect.cleandoc(component.get("description", ""))
    return dict(zip(kinds, found, strict=True)), components


def _types(operation: Operation) -> Iterator[type]:
    yield from (kind for kind in (operation.body, operation.signed_body) if kind)
    yield from (answer.content for answer in operation.answers.values() if answer.content)


def _template(path: str) -> str:
    return re.sub(r"<int:(\w+)>", r"{\1}", path)


def _ids(path: str) -> list[str]:
    return re.findall(r"<int:(\w+)>", path)


def _operation(route: Route, schemas: Schemas) -> Json:
    operation = route.operation
    summary, _, text = inspect.cleandoc(route.view.__doc__ or "").partition("\n\n")
    found = {
        "operationId": _operation_id(route.view.__name__),
        "summary": summary.removesuffix("."),
        "description": text,
        "tags": [operation.tag],
        "security": [{"buyer": []}] if operation.buyer else [],
        "parameters": list(_parameters(route, schemas)),
        "responses": {
            **{
                str(status): _good(answer, schemas, operation.max_age)
                for status, answer in operation.answers.items()
            },
            **{
                str(status): {"$ref": f"#/components/responses/{_name(codes)}"}
                for status, codes in _by_status(_codes(route)).items()
            },
            **{status: {"$ref": f"#/components/responses/{status}"} for status in SERVERS_OWN},
        },
    }
    if body := operation.body or operation.signed_body:
        found["requestBody"] = {
            "required": any(field.required for field in msgspec.structs.fields(body)),
            "content": {"application/json": {"schema": schemas[body]}},
        }
    return found


def _operation_id(name: str) -> str:
    first, *others = name.split("_")
    return first + "".join(word.capitalize() for word in others)


def _parameters(route: Route, schemas: Schemas) -> Iterator[Json]:
    operation = route.operation
    for name in _ids(route.path):
        yield {"name": name, "in": "path", "required": True, "schema": schemas[Id]}
    if operation.key:
        required = operation.key == "required"
        yield _header("Idempotency-Key", required, schemas[Key])
    for name, text in operation.headers.items():
        yield _header(name, True, {"type": "string", "description": text})
    if operation.query:
        (query,) = msgspec.json.schema_components([operation.query])[1].values()
        for name, schema in query["properties"].items():
            # Separated by commas: `?further_sales=8,9`.
            yield {"name": name, "in": "query", "explode": False, "schema": schema}
    yield {"$ref": "#/components/parameters/Language"}


def _header(name: str, required: bool, schema: Json) -> Json:
    return {"name": name, "in": "header", "required": required, "schema": schema}


def _good(answer: Answer, schemas: Schemas, max_age: int) -> Json:
    found: Json = {"description": answer.meaning}
    if answer.content:
        media_type = JSON_LINES if answer.content is str else "application/json"
        found["content"] = {media_type: {"schema": schemas[answer.content]}}
    if max_age:
        found["headers"] = {"Cache-Control": {"$ref": "#/components/headers/CacheControl"}}
    if answer.links:
        found["links"] = {
            name: {
                "operationId": _operation_id(name),
                "parameters": {parameter: f"$response.body#/{member}"},
            }
            for name, (parameter, member) in answer.links.items()
        }
    return found


def _codes(route: Route) -> list[str]:
    """Every code that an operation may be refused with, in the order of `PROBLEMS`."""
    operation = route.operation
    found = {*operation.problems, "internal_error", "unknown_host"}
    found.add("busy")
    if not operation.only_reads:
        found.add("outcome_unknown")
    if operation.buyer:
        found.add("unauthorized")
    if operation.key:
        found.add("idempotency_key_missing")
    if operation.method == "POST":
        found |= {"malformed", "too_large"}
    if operation.body:
        found |= {"invalid_request", *operation.body.codes.values()}
    if operation.query:
        found.add("invalid_request")
    if _ids(route.path):
        found.add("not_found")
    return [code for code in PROBLEMS if code in found]


def _by_status(codes: list[str]) -> Mapping[int, tuple[str, ...]]:
    found: dict[int, tuple[str, ...]] = {}
    for code in codes:
        status = PROBLEMS[code].status
        found[status] = (*found.get(status, ()), code)
    return found


def _name(codes: tuple[str, ...]) -> str:
    return ".".join(codes)


def _refusals(codes: tuple[str, ...]) -> Json:
    with override("en"):  # the document is the same for every visitor
        description = " ".join(f"`{code}`: {PROBLEMS[code].title}" for code in codes)
    found: Json = {
        "description": description,
        "content": {
            "application/problem+json": {
                "schema": {
                    "allOf": [
                        {"$ref": "#/components/schemas/Problem"},
                        {"properties": {"code": {"enum": list(codes)}}},
                    ]
                },
                "examples": {
                    code: {"value": msgspec.to_builtins(problems.document(code))} for code in codes
                },
            }
        },
    }
    if PROBLEMS[codes[0]].status == HTTPStatus.BAD_REQUEST:
        found["content"] |= HTML
    if any(PROBLEMS[code].retry_after is not None for code in codes):
        found["headers"] = {"Retry-After": {"$ref": "#/components/headers/RetryAfter"}}
    return found
