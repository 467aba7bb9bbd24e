"""A sale, buyers, and a client that speaks JSON."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any, cast
from uuid import uuid4

import pytest
from django.conf import settings
from django.core.handlers.wsgi import WSGIHandler, WSGIRequest
from django.http.response import HttpResponseBase
from django.test import Client
from django.test.client import ClientHandler

from shop.accounts import tokens
from shop.accounts.models import User
from shop.api.handler import ApiHandler, Serving
from shop.api.problems import Reply
from shop.catalogue.models import Sale
from shop.catalogue.sales import open_sale
from shop.payments.provider import provider
from shop.shares import of_page
from shop.tests import openapi
from shop.tests.provider import FakeProvider


@cache
def api_handler(root_urlconf: str, https_only: bool, hosts: tuple[str, ...]) -> ApiHandler:
    return ApiHandler(WSGIHandler())


def _serve_as_in_production() -> None:
    """Let every test client send calls of the API to the API's handler."""
    to_django = ClientHandler.get_response

    def get_response(self: ClientHandler, request: WSGIRequest) -> HttpResponseBase:
        hosts = tuple(settings.ALLOWED_HOSTS)
        api = api_handler(settings.ROOT_URLCONF, settings.SECURE_SSL_REDIRECT, hosts)
        answer = api.respond(request)
        if answer is None:
            with Serving(of_page(request.META)):
                return to_django(self, request)
        return answer.response() if isinstance(answer, Reply) else answer

    ClientHandler.get_response = get_response  # type: ignore[method-assign, assignment]


_serve_as_in_production()


class Buyer:
    """A user with a token who calls the API."""

    def __init__(self, name: str) -> None:
        # Without a password: hashing one costs more than most tests.
        address = f"{name}@example.com"
        self.user = User.objects.create(username=name, email=address, password="!")
        self.token = tokens.issue(self.user.pk)

    def call(self, method: str, path: str, body: Any = None, **headers: str) -> Any:
        """Call the API and hold its answer against the OpenAPI document.

        A body that is not bytes is sent as JSON.
        """
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        sent = {"authorization": f"Bearer {self.token}", **headers}
        answer = Client().generic(
            method,
            f"/api/v1/{path}",
            b"" if body is None else data,
            "application/json",
            headers={name.replace("_", "-"): value for name, value in sent.items()},
        )
        assert not answer.cookies
        openapi.conforms(method, f"/api/v1/{path}", answer)
        return answer

    def buy(self, sale: Sale, quantity: Any = 1, key: object = None, **headers: str) -> Any:
        """Place an order."""
        key = str(key or uuid4())
        body = {"quantity": quantity}
        return self.call("POST", f"sales/{sale.pk}/orders", body, idempotency_key=key, **headers)

    def order(self, sale: Sale, quantity: int = 1) -> int:
        """Place an order that must succeed; return its id."""
        answer = self.buy(sale, quantity)
        assert answer.status_code == 201, answer.content
        pk: int = answer.json()["id"]
        return pk

    def post(self, path: str, **headers: str) -> Any:
        """POST without a body."""
        return self.call("POST", path, **headers)

    def get(self, path: str, **headers: str) -> Any:
        """GET."""
        return self.call("GET", path, **headers)


@pytest.fixture(autouse=True)
def fake_provider(settings: Any) -> Iterator[FakeProvider]:
    """The payment provider of all tests, in this process."""
    settings.PAYMENT_PROVIDER = "shop.tests.provider.FakeProvider"
    provider.cache_clear()
    yield cast(FakeProvider, provider())
    provider.cache_clear()


@pytest.fixture
def ann(db: None) -> Buyer:
    """A buyer."""
    return Buyer("ann")


@pytest.fixture
def bob(db: None) -> Buyer:
    """Another buyer."""
    return Buyer("bob")


@pytest.fixture
def sale_of(db: None) -> Callable[..., Sale]:
    """Open a sale."""

    def make(stock: int = 10, *, limit: int = 2, price: int = 99_900, **more: Any) -> Sale:
        return open_sale(stock=stock, limit=limit, price=price, **more)

    return make


@pytest.fixture
def sale(sale_of: Callable[..., Sale]) -> Sale:
    """Ten units at 999.00 CNY, two per buyer."""
    return sale_of()
