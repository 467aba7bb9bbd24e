"""Serve the documentation's site, if `make site` has built it."""

from __future__ import annotations

from django.http import FileResponse, Http404, HttpRequest, HttpResponseBase, HttpResponseRedirect
from django.views.decorators.http import require_safe
from django.views.static import serve

from shop import environment
from shop.operating import headers

SITE = environment.PROJECT / "site"

POLICY = f"{headers.PAGES}; img-src 'self' data:"
"""The theme's icons are data in its style sheets."""


@require_safe
def page(request: HttpRequest, path: str) -> HttpResponseBase:
    """Serve a file of the site; for a folder, its page."""
    if ".." in path:
        raise Http404
    if (SITE / path).is_dir():
        if path and not path.endswith("/"):
            return HttpResponseRedirect(f"{request.path}/")
        path = f"{path}index.html"
    if not SITE.is_dir():
        raise Http404("run `make site` first")
    response: FileResponse = serve(request, path, document_root=str(SITE))
    response.headers[headers.POLICY] = POLICY
    return response
