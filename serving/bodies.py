"""Complete request bodies: a request whose body ends early is not executed.

Servers and Django hand over what has arrived. A request without a body may ask for more than one
with a body, so a body that was cut short must not be taken for an empty one.
"""

from __future__ import annotations

from collections.abc import Callable

from django.http import HttpRequest, HttpResponseBadRequest, HttpResponseBase

Handler = Callable[[HttpRequest], HttpResponseBase]


class BodyIncomplete(Exception):
    """The body ended early, or its length is unknown."""


def whole_body(request: HttpRequest) -> bytes:
    """Return a request's body.

    Raises:
        BodyIncomplete: it ended early, took too long, or its length is unknown.
    """
    if "HTTP_TRANSFER_ENCODING" in request.META:
        raise BodyIncomplete("Send the body with its Content-Length.")
    length: str = request.META.get("CONTENT_LENGTH") or "0"
    try:
        body = request.body
    except OSError:
        body = b""
    if not length.isdecimal() or len(body) != int(length):
        raise BodyIncomplete("The body is shorter than its Content-Length.")
    return body


def whole_bodies(get_response: Handler) -> Handler:
    """Read the body of each page's request before its view runs, and refuse incomplete ones.

    A view would not notice: after a failed read, Django's `request.POST` is empty.
    """

    def middleware(request: HttpRequest) -> HttpResponseBase:
        if request.META.get("CONTENT_LENGTH") or "HTTP_TRANSFER_ENCODING" in request.META:
            try:
                whole_body(request)
            except BodyIncomplete as error:
                return HttpResponseBadRequest(str(error), content_type="text/plain")
        return get_response(request)

    return middleware
