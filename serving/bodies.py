"""Complete request bodies: a request whose body ends early is not executed.

Servers and Django hand over what has arrived. A request without a body may ask for more than one
with a body, so a body that was cut short must not be taken for an empty one.
"""

from __future__ import annotations

from collections.abc import Callable

from django.http import HttpRequest, HttpResponseBadRequest, HttpResponseBase

Handler = Callable[[HttpRequest], HttpResponseBase]


def whole_bodies(get_response: Handler) -> Handler:
    """Read the body of each page's request before its view runs, and refuse incomplete ones.

    A view would not notice: after a failed read, Django's `request.POST` is empty.
    """

    def middleware(request: HttpRequest) -> HttpResponseBase:
        problem = _incomplete(request)
        if problem:
            return HttpResponseBadRequest(problem, content_type="text/plain")
        return get_response(request)

    return middleware


def _incomplete(request: HttpRequest) -> str:
    """Return why a request's body is not whole; empty if it is."""
    if "HTTP_TRANSFER_ENCODING" in request.META:
        return "Send the body with its Content-Length."
    length: str = request.META.get("CONTENT_LENGTH") or "0"
    if length == "0":
        return ""
    try:
        whole = length.isdecimal() and len(request.body) == int(length)
    except OSError:
        whole = False
    return "" if whole else "The body is shorter than its Content-Length."
