"""The OpenAPI document describes the API: whole, valid, and served."""

import json
import re

from openapi_spec_validator import validate

from shop import urls
from shop.api import openapi
from shop.pages.docs import description
from shop.refusals import PROBLEMS
from shop.tests.openapi import METHODS, document, operations, refused, resolve


def problem_codes(operation):
    for answer in operation["responses"].values():
        content = resolve(answer).get("content", {})
        for part in content.get("application/problem+json", {"schema": {}})["schema"].get(
            "allOf", []
        ):
            yield from part.get("properties", {}).get("code", {}).get("enum", [])


DOCUMENT = document()


def test_openapi_document_is_valid():
    assert DOCUMENT["openapi"].startswith("3.1.")
    validate(DOCUMENT)


def test_openapi_describes_every_url():
    routes = {
        "/api/v1/" + re.sub(r"<int:(\w+)>", r"{\1}", str(route.pattern)) for route in urls.calls
    }
    assert {path for path in DOCUMENT["paths"] if "/demo/" not in path} == routes


def tags(document):
    """The document's tags, which its operations must use, and no others."""
    declared = [tag["name"] for tag in document["tags"]]
    each = [item[method] for item in document["paths"].values() for method in item]
    assert {tag for operation in each for tag in operation["tags"]} == set(declared)
    return declared


SHOPS = ["Sales", "Orders", "Buyers", "Payments"]


def test_openapi_tags_are_described_and_exclude_the_demos(settings):
    assert tags(DOCUMENT)[: len(SHOPS)] == SHOPS
    assert all(tag["description"] for tag in DOCUMENT["tags"])
    settings.ROOT_URLCONF = "shop.urls"
    found = openapi.document()
    assert tags(found) == SHOPS
    assert not any("/demo/" in path for path in found["paths"])
    assert "load test" not in json.dumps(found).lower()


def test_openapi_lists_all_methods(client, db):
    for path, item in DOCUMENT["paths"].items():
        documented = {method for method in METHODS if method in item}
        for method in set(METHODS) - documented:
            answer = getattr(client, method)(re.sub(r"{\w+}", "1", path))
            refused(answer, 405, "method_not_allowed")
            assert set(answer.headers["Allow"].lower().split(", ")) == documented


def test_openapi_documents_exactly_the_problem_codes():
    listed = {code for operation in operations() for code in problem_codes(operation)}
    assert listed | {"method_not_allowed"} == set(PROBLEMS)
    assert DOCUMENT["components"]["schemas"]["Problem"]["properties"]["code"]["enum"] == [*PROBLEMS]


def test_openapi_operations_are_unique_and_links_lead_to_them():
    names = [operation["operationId"] for operation in operations()]
    assert len(names) == len(set(names))
    answers = [answer for operation in operations() for answer in operation["responses"].values()]
    links = [link for answer in answers for link in answer.get("links", {}).values()]
    assert len(links) > len(names)
    by_name = {operation["operationId"]: operation for operation in operations()}
    for link in links:
        parameters = {
            parameter.get("name") for parameter in by_name[link["operationId"]]["parameters"]
        }
        assert set(link["parameters"]) <= parameters


def test_openapi_document_is_served_and_cached(client):
    answer = client.get("/api/v1/openapi.json")
    assert answer.content == description()
    assert answer.headers["Content-Type"] == "application/json"
    known = {"If-None-Match": answer.headers["ETag"]}
    assert client.get("/api/v1/openapi.json", headers=known).status_code == 304


def test_problem_type_is_an_anchor_of_the_documentation(client):
    page = client.get("/api/docs").content.decode()
    for code in PROBLEMS:
        assert f'id="{code}"' in page
