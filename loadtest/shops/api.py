"""What adapters share: JSON over HTTP for the steps that no buyer races with, and SQL for books."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from http.client import HTTPException
from typing import Any
from urllib import request as urllib
from urllib.error import HTTPError

from loadtest.shop import Buyer, Request, Response, Sale, Send

TIMEOUT = 60.0
"""Seconds for an answer to a step that prepares a sale; some shops build their schema first."""

DATABASE = "SHOP_DATABASE_URL"
"""Environment variable with the shop's database, for adapters that read its books there."""


class ShopError(RuntimeError):
    """The shop cannot be judged; the message says what was asked and what came back."""


def call(method: str, path: str, body: Any = None, **headers: str) -> Request:
    """Build a request with a JSON body; `authorization="…"` becomes a header."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    if body is None:
        return Request(method, path, named)
    return Request(
        method, path, {"content-type": "application/json", **named}, json.dumps(body).encode()
    )


def said(response: Response) -> Any:
    """Return the answer's JSON; an empty object if it has none."""
    try:
        return json.loads(response.body)
    except ValueError:
        return {}


class WithoutSteps:
    """For adapters of shops whose purchase is one call: nothing comes before it."""

    def add_to_cart(self, sale: Sale, buyer: Buyer) -> Request | None:
        """Return nothing: there is no cart."""
        return None

    def prepare(self, sale: Sale, buyer: Buyer, send: Send) -> None:
        """Nothing comes between the cart and the last step."""


class _NoRedirects(urllib.HTTPRedirectHandler):
    def redirect_request(self, *_: Any) -> None:
        """Return nothing, so that the redirect is the answer."""


_OPENER = urllib.build_opener(_NoRedirects)


class Api:
    """The shop's HTTP interface, for its owner's steps.

    A redirect is an answer like another, as it is for the requests that buyers race with.
    """

    def __init__(self, host: str) -> None:
        self._host = host.rstrip("/")

    def send(self, asked: Request) -> Response:
        """Send a request and return the answer, whatever its status.

        Raises:
            ShopError: no answer came.
        """
        body = asked.body or None
        sent = urllib.Request(
            self._host + asked.path, body, dict(asked.headers), method=asked.method
        )
        try:
            with _OPENER.open(sent, timeout=TIMEOUT) as answer:
                return _response(answer)
        except HTTPError as error:
            with error:
                return _response(error)
        except (OSError, HTTPException) as error:
            raise ShopError(f"{asked.method} {self._host}{asked.path}: {error}") from error

    def ask(self, method: str, path: str, body: Any = None, **headers: str) -> Any:
        """Send JSON and return the answer's.

        Raises:
            ShopError: no answer came, or an error or a redirect.
        """
        response = self.send(call(method, path, body, **headers))
        if response.status >= 300:
            text = response.headers.get("location", "")
            text = text or response.body[:300].decode(errors="replace")
            raise ShopError(f"{method} {self._host}{path}: {response.status} {text}")
        return said(response)

    def query(self, path: str, text: str, variables: Mapping[str, Any], **headers: str) -> Any:
        """Send a GraphQL query and return its data.

        Raises:
            ShopError: no answer came, or errors.
        """
        answer = self.ask("POST", path, {"query": text, "variables": variables}, **headers)
        if answer.get("errors"):
            raise ShopError(f"POST {self._host}{path}: {json.dumps(answer['errors'])[:300]}")
        return answer["data"]


def rows(sql: str, *values: Any) -> Sequence[tuple[Any, ...]]:
    """Run SQL in the shop's database and return the rows.

    Raises:
        ShopError: the database is not named, or refuses.
    """
    import psycopg  # only adapters that read a database need it

    if not os.environ.get(DATABASE):
        raise ShopError(f"{DATABASE} must name the shop's database, where its books are.")
    try:
        with psycopg.connect(os.environ[DATABASE], autocommit=True, connect_timeout=10) as shop:
            # A literal from our adapters, never from a shop.
            return shop.execute(sql.encode(), values).fetchall()
    except psycopg.Error as error:
        raise ShopError(f"The shop's database: {error}") from error


def _response(answer: Any) -> Response:
    headers: dict[str, str] = {}
    for name, value in answer.headers.items():
        # Several cookies stay several lines, as a comma may be part of one.
        headers[name.lower()] = "\n".join(filter(None, (headers.get(name.lower()), value)))
    return Response(answer.status, headers, answer.read())
