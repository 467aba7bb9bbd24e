"""The OpenAPI document says what the API does, no more and no less."""

import json
import re
from datetime import timedelta
from uuid import uuid4

import pytest
from django.http import HttpResponse
from django.test import RequestFactory
from jsonschema import Draft202012Validator
from openapi_spec_validator import validate

from inventory.models import Reservation
from shop import orders
from shop.accounts import tokens
from shop.api import urls
from shop.api.problems import problem
from shop.pages.docs import description
from shop.refusals import PROBLEMS, Refusal
from shop.tests.catalogue import (
    PASSWORD,
    a_buyer,
    a_sale,
    a_sold_out_sale,
    an_ended_sale,
    an_order,
    an_upcoming_sale,
)

DOCUMENT = json.loads(description())
METHODS = ("get", "post", "put", "patch", "delete")


def operations():
    for path, item in DOCUMENT["paths"].items():
        for method in METHODS:
            if method in item:
                yield path, method, item[method]


def resolve(node):
    """Follow a reference into the document's components."""
    while "$ref" in node:
        found = DOCUMENT
        for part in node["$ref"].removeprefix("#/").split("/"):
            found = found[part]
        node = found
    return node


def check(schema, instance):
    # With the components at its root, the schema's references resolve inside it.
    whole = {**schema, "components": DOCUMENT["components"]}
    checker = Draft202012Validator.FORMAT_CHECKER
    Draft202012Validator(whole, format_checker=checker).validate(instance)


def problem_codes(operation):
    for answer in operation["responses"].values():
        content = resolve(answer)["content"]
        for part in content.get("application/problem+json", {"schema": {}})["schema"].get(
            "allOf", []
        ):
            yield from part.get("properties", {}).get("code", {}).get("enum", [])


class Caller:
    """Calls the API and holds every answer against the document."""

    def __init__(self, client):
        self.client = client

    def __call__(self, method, path, body=None, *, buyer=None, **headers):
        if buyer is not None:
            headers["Authorization"] = f"Bearer {tokens.issue(buyer.pk)}"
        data = body if isinstance(body, str) else json.dumps(body or {})
        send = {"data": data, "content_type": "application/json"} if method == "post" else {}
        answer = getattr(self.client, method)(path, headers=headers, **send)
        self.conforms(method, path, answer)
        return answer

    def conforms(self, method, path, answer):
        documented = DOCUMENT["paths"][template(path)][method]["responses"]
        assert str(answer.status_code) in documented, answer.content
        described = resolve(documented[str(answer.status_code)])
        content_type = answer.headers["Content-Type"]
        check(described["content"][content_type]["schema"], answer.json())
        assert ("Retry-After" in answer.headers) == ("Retry-After" in described.get("headers", {}))


def template(path):
    """The document's path that a request's path is one of."""
    pattern = re.sub(r"\d+", r"\\{\\w+\\}", path.partition("?")[0].replace("v1", "v.", 1))
    (found,) = (each for each in DOCUMENT["paths"] if re.fullmatch(pattern, each))
    return found


@pytest.fixture
def call(client, transactional_db):
    return Caller(client)


def code_of(answer: HttpResponse) -> str:
    return str(json.loads(answer.content)["code"])


def test_the_document_is_valid_openapi():
    assert DOCUMENT["openapi"].startswith("3.1.")
    validate(DOCUMENT)


def test_every_url_of_the_api_is_described():
    routes = {
        "/api/v1/" + re.sub(r"<int:(\w+)>", r"{\1}", str(route.pattern))
        for route in urls.urlpatterns
    }
    assert {path for path in DOCUMENT["paths"] if "/demo/" not in path} == routes


def test_the_api_has_the_documented_methods_only(client, db):
    for path, item in DOCUMENT["paths"].items():
        documented = {method for method in METHODS if method in item}
        for method in set(METHODS) - documented:
            answer = getattr(client, method)(re.sub(r"{\w+}", "1", path))
            assert code_of(answer) == "method_not_allowed"
            assert {answer.headers["Allow"].lower()} == documented


def test_every_problem_code_is_documented_and_no_other():
    listed = {code for _, _, operation in operations() for code in problem_codes(operation)}
    assert listed | {"method_not_allowed"} == set(PROBLEMS)
    assert DOCUMENT["components"]["schemas"]["Problem"]["properties"]["code"]["enum"] == [*PROBLEMS]


def test_every_operation_has_a_name_of_its_own_and_every_link_leads_to_one():
    names = [operation["operationId"] for _, _, operation in operations()]
    assert len(names) == len(set(names))
    answers = [answer for _, _, each in operations() for answer in each["responses"].values()]
    links = [link for answer in answers for link in answer.get("links", {}).values()]
    assert len(links) > len(names)
    by_name = {operation["operationId"]: operation for _, _, operation in operations()}
    for link in links:
        parameters = {each.get("name") for each in by_name[link["operationId"]]["parameters"]}
        assert set(link["parameters"]) <= parameters


@pytest.mark.parametrize("code", PROBLEMS)
@pytest.mark.parametrize("language", ["en", "zh-CN"])
def test_a_problem_of_every_code_fits_the_schema(code, language):
    request = RequestFactory().get("/", headers={"Accept-Language": language})
    answer = problem(request, code)
    check(DOCUMENT["components"]["schemas"]["Problem"], json.loads(answer.content))
    assert answer.status_code == PROBLEMS[code].status


def test_a_purchase_and_its_replay_are_answered_as_documented(call):
    sale, buyer, key = a_sale(limit=2), a_buyer(), str(uuid4())
    send = {"buyer": buyer, "Idempotency-Key": key}
    path = f"/api/v1/sales/{sale.pk}/orders"
    first = call("post", path, {"quantity": 1}, **send)
    again = call("post", path, {"quantity": 1}, **send)
    assert (first.status_code, again.status_code) == (201, 200)
    assert first.json() == again.json()
    assert code_of(call("post", path, {"quantity": 2}, **send)) == "idempotency_key_reused"


@pytest.mark.parametrize(
    ("make", "code"),
    [
        (an_upcoming_sale, "not_started"),
        (an_ended_sale, "ended"),
        (a_sold_out_sale, "sold_out"),
        (lambda: a_sale(paused=True), "paused"),
        (lambda: a_sale(limit=1), "limit_reached"),
    ],
)
def test_a_refused_purchase_is_answered_as_documented(call, make, code):
    sale, buyer = make(), a_buyer()
    quantity = 2 if code == "limit_reached" else 1
    path = f"/api/v1/sales/{sale.pk}/orders"
    answer = call("post", path, {"quantity": quantity}, buyer=buyer, **key_header())
    assert code_of(answer) == code


def test_a_cart_its_replay_and_its_refusals_are_answered_as_documented(call):
    sales, buyer, send = [a_sale(), a_sold_out_sale()], a_buyer(), key_header()
    lines = [{"sale": sale.pk, "quantity": 1} for sale in sales]
    path = "/api/v1/orders"
    first = call("post", path, {"lines": lines[:1]}, buyer=buyer, **send)
    again = call("post", path, {"lines": lines[:1]}, buyer=buyer, **send)
    assert (first.status_code, again.status_code, again.json()) == (201, 200, first.json())
    assert code_of(call("post", path, {"lines": lines}, buyer=buyer, **send)) == "sold_out"
    assert code_of(call("post", path, {"lines": []}, buyer=buyer, **send)) == "invalid_cart"


def key_header():
    return {"Idempotency-Key": str(uuid4())}


def test_a_purchase_without_key_or_token_or_sale_is_answered_as_documented(call):
    buyer, path = a_buyer(), f"/api/v1/sales/{a_sale().pk}/orders"
    one = {"quantity": 1}
    assert code_of(call("post", path, one, buyer=buyer)) == "idempotency_key_missing"
    assert code_of(call("post", path, one, **key_header())) == "unauthorized"
    nowhere = "/api/v1/sales/999999999/orders"
    assert code_of(call("post", nowhere, one, buyer=buyer, **key_header())) == "not_found"


@pytest.mark.parametrize("code", ["busy", "outcome_unknown"])
def test_overload_and_an_unknown_outcome_are_answered_as_documented(call, code, monkeypatch):
    def refuse(*purchase):
        raise Refusal(code)

    monkeypatch.setattr("shop.api.views.buy", refuse)
    path = f"/api/v1/sales/{a_sale().pk}/orders"
    answer = call("post", path, {"quantity": 1}, buyer=a_buyer(), **key_header())
    assert code_of(answer) == code


def test_a_sale_is_shown_as_documented_in_every_state(call):
    states = {
        "open": a_sale(),
        "not_started": an_upcoming_sale(),
        "ended": an_ended_sale(),
        "paused": a_sale(paused=True),
        "sold_out": a_sold_out_sale(),
    }
    for status, sale in states.items():
        assert call("get", f"/api/v1/sales/{sale.pk}").json()["status"] == status
    assert code_of(call("get", "/api/v1/sales/999999999")) == "not_found"


def test_an_order_is_shown_paid_and_refunded_as_documented(call):
    buyer = a_buyer()
    path = f"/api/v1/orders/{an_order(a_sale(), buyer).pk}"
    assert call("get", path, buyer=buyer).json()["status"] == "awaiting_payment"
    assert code_of(call("post", f"{path}/refund", buyer=buyer)) == "order_awaiting_payment"
    assert call("post", f"{path}/payment", buyer=buyer).json()["status"] == "paid"
    assert code_of(call("post", f"{path}/cancel", buyer=buyer)) == "order_paid"
    assert call("post", f"{path}/refund", buyer=buyer).json()["status"] == "refunded"
    assert code_of(call("post", f"{path}/payment", buyer=buyer)) == "order_refunded"
    for action in ("payment", "cancel", "refund"):
        assert code_of(call("post", f"{path}/{action}")) == "unauthorized"
        assert code_of(call("post", f"{path}/{action}", buyer=a_buyer())) == "not_found"


def test_an_order_is_cancelled_as_documented(call):
    buyer = a_buyer()
    path = f"/api/v1/orders/{an_order(a_sale(), buyer).pk}"
    assert call("post", f"{path}/cancel", buyer=buyer).json()["status"] == "cancelled"
    assert code_of(call("post", f"{path}/payment", buyer=buyer)) == "order_cancelled"
    assert code_of(call("post", f"{path}/refund", buyer=buyer)) == "order_cancelled"


def test_an_expired_order_is_answered_as_documented(call):
    buyer = a_buyer()
    order = an_order(a_sale(), buyer)
    held = Reservation.objects.get(orderline__order=order)
    held.deadline -= timedelta(days=1)
    held.save(update_fields=["deadline"])
    assert orders.expire() == 1
    path = f"/api/v1/orders/{order.pk}"
    for action in ("payment", "cancel", "refund"):
        assert code_of(call("post", f"{path}/{action}", buyer=buyer)) == "order_expired"


def test_tokens_are_answered_as_documented(call):
    buyer = a_buyer(PASSWORD)
    login = {"username": buyer.username, "password": PASSWORD}
    made = call("post", "/api/v1/tokens", login)
    assert tokens.verify(made.json()["token"]) == buyer.pk
    wrong = call("post", "/api/v1/tokens", {**login, "password": "no"})
    assert code_of(wrong) == "wrong_credentials"
    assert code_of(call("post", "/api/v1/tokens", {"username": 1})) == "invalid_request"


def test_the_document_is_served_and_cached(client):
    answer = client.get("/api/v1/openapi.json")
    assert answer.content == description()
    assert answer.headers["Content-Type"] == "application/json"
    known = {"If-None-Match": answer.headers["ETag"]}
    assert client.get("/api/v1/openapi.json", headers=known).status_code == 304


def test_the_type_of_a_problem_is_an_anchor_of_the_documentation(client):
    page = client.get("/api/docs").content.decode()
    for code in PROBLEMS:
        assert f'id="{code}"' in page


def test_an_unknown_path_of_the_api_is_a_problem_too(client):
    answer = client.get("/api/v1/nothing")
    assert answer.headers["Content-Type"] == "application/problem+json"
    assert code_of(answer) == "not_found"
