"""The pages of the control room and of the duel, and the tokens for the room's process."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import wraps
from typing import Any

from django.conf import settings
from django.contrib.auth.views import redirect_to_login
from django.core import signing
from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import render
from django.templatetags.static import static
from django.urls import reverse
from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from lab.room.permissions import actions_of
from lab.room.texts import MIX_NAMES, TEXTS
from lab.strategies import CLASSES, DEFAULT
from shop.operating import headers

View = Callable[[HttpRequest], HttpResponse]

LIFETIME = 15 * 60
"""Seconds that a token may be used, and that a stream lasts: a user who is no longer staff, or who
loses a permission, is out after twice this time at most. The page gets a new token in time."""

# The process has another port and so another origin. A session cookie would have to be looked up
# in PostgreSQL, which the room must outlive; a signed token is checked without a server.
_SALT = "lab.room.tokens"


def issue(user: object, actions: Iterable[str]) -> str:
    """Make a token for a member of staff.

    Args:
        user: their id.
        actions: what they may do. The room's process reads it here, since it must know while
            PostgreSQL is away.
    """
    return signing.dumps([str(user), sorted(actions)], salt=_SALT)


def verify(token: str) -> frozenset[str]:
    """Return the actions that a valid token allows.

    Raises:
        BadSignature: forged, damaged or expired.
    """
    _user, actions = signing.loads(token, salt=_SALT, max_age=LIFETIME)
    return frozenset(actions)


def for_staff(view: View) -> View:
    """Let only staff in; others are led to the stage, which signs them in and back here.

    Where no room's process runs, there is no page.
    """

    @require_safe
    @never_cache
    @wraps(view)
    def checked(request: HttpRequest) -> HttpResponse:
        if not settings.ROOM_URL:
            raise Http404
        if not getattr(request.user, "is_staff", False):
            return redirect_to_login(request.get_full_path(), reverse("stage"))
        return view(request)

    return checked


@dataclass(frozen=True, slots=True)
class Preset:
    """A rush that one button chooses.

    Attributes:
        name: of the button.
        arrivals: buyers per second; 0: all at once.
    """

    name: Promise
    buyers: int
    arrivals: int
    stock: int


PRESETS = (
    # Long enough to press a fault and to watch it heal, on two slow cores too.
    Preset(_("40 seconds"), buyers=1300, arrivals=30, stock=1100),
    Preset(_("2 minutes"), buyers=3900, arrivals=30, stock=3300),
    Preset(_("all at once"), buyers=500, arrivals=0, stock=100),
)
"""The first is the default. Of 100 buyers some 90 buy a unit, and the last ones find nothing."""


@for_staff
def room(request: HttpRequest) -> HttpResponse:
    """Show the control room."""
    return _page(
        request,
        "lab/room.html",
        {"mixes": MIX_NAMES, "behaviours": TEXTS["behaviours"], "presets": PRESETS},
    )


UNSAFE = "naive"

DUEL_BUYERS, DUEL_UNITS = 150, 50
"""Of each side: both are recorded and judged within a minute on two cores."""


@for_staff
def duel(request: HttpRequest) -> HttpResponse:
    """Show two strategies that sell to the same buyers."""
    chosen = {
        "first": UNSAFE,
        "second": DEFAULT,
        "buyers": DUEL_BUYERS,
        "stock": DUEL_UNITS,
        "scripts": _player(),
    }
    return _page(request, "lab/duel.html", chosen)


@for_staff
def token(request: HttpRequest) -> HttpResponse:
    """Give a page a new token before its old one expires."""
    return JsonResponse(
        {"token": issue(request.user.pk, actions_of(request.user)), "lifetime": LIFETIME}
    )


PLAYER = ("words.js", "file.js", "picture.js", "view.js", "player.js")
"""The player's scripts, in the order in which they need each other."""


def _player() -> list[str]:
    return [static(f"replay/{name}") for name in PLAYER]


def _page(request: HttpRequest, template: str, more: dict[str, Any]) -> HttpResponse:
    context = {
        # By name: a template would call a class.
        "strategies": {name: kind.summary for name, kind in CLASSES.items()},
        "default": DEFAULT,
        "settings_of_script": {"url": settings.ROOM_URL},
        "texts": TEXTS,  # rendered in the visitor's language
        **more,
    }
    response = render(request, template, context)
    # The room's process has another port, which is another origin: this page alone may ask it.
    response.headers[headers.POLICY] = f"{headers.PAGES}; connect-src 'self' {settings.ROOM_URL}"
    return response
