"""The show of ten minutes: its steps, each opened as the right person, and its new start."""

from __future__ import annotations

from dataclasses import dataclass

import urllib3
from django.conf import settings
from django.contrib.auth import authenticate, login
from django.contrib.auth.models import AbstractBaseUser, AnonymousUser
from django.http import HttpRequest
from django.urls import reverse
from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

from lab.demo.data import LOGINS, Login, fill_catalogue
from lab.room import views
from shop.catalogue.models import Sale

ADMIN, BUYER = LOGINS
PHONE = "classic-phone"

HEALING = 90.0
"""Seconds that the room may take to start again: it heals its fault, which may restart a server."""


@dataclass(frozen=True, slots=True)
class Step:
    """A step of the show.

    Attributes:
        button: what the button says; it opens the page.
        text: what to do there, and what to see.
        who: who does it; None: a page without accounts.
        url: of the page; empty: it is not there.
    """

    button: Promise
    text: Promise
    who: Login | None
    url: str


def show_steps() -> list[Step]:
    """Return the steps in their order."""
    phone = Sale.objects.filter(product__slug=PHONE, listed=True).order_by("-starts_at").first()
    room = reverse("room") if settings.ROOM_URL else ""
    return [
        Step(
            _("Open the phone"),
            _("Buy a phone, and pay for it. One minute."),
            BUYER,
            phone.get_absolute_url() if phone else reverse("home"),
        ),
        Step(
            _("Open the control room"),
            _(
                "Start the rush: 1,300 buyers at 1,100 units. In 40 s stock falls to zero and no "
                "further, and a card counts what became of the buyers. Two minutes."
            ),
            ADMIN,
            room,
        ),
        Step(
            _("Break something"),
            _(
                "Start the rush again, and kill Redis meanwhile: the shop sells on without its "
                "locks, because the database decides. Heal it, and pause the lock's holder: the "
                "next one goes on, and the old token is refused. Two minutes."
            ),
            ADMIN,
            room,
        ),
        Step(
            _("Open the duel"),
            _(
                "Play it: “naive” and “combining” sell to the same buyers. Count what “naive” "
                "has sold beyond its units. Two minutes."
            ),
            ADMIN,
            reverse("duel") if settings.ROOM_URL else "",
        ),
        Step(
            _("Open the first lesson"),
            _("Choose who moves next, until nobody can ever enter. Two minutes."),
            BUYER,
            reverse("lock-scenario", args=["setnx-expire", "crash"]),
        ),
        Step(
            _("Open Locust"),
            _(
                "Press Start: the form is filled in, and the verdict appears at the bottom of "
                "the page. One minute."
            ),
            None,
            settings.LOCUST_URL,
        ),
    ]


def find_login(username: str) -> Login | None:
    """Return the demo's account of this name."""
    return next((known for known in LOGINS if known.username == username), None)


def sign_in(request: HttpRequest, who: Login) -> bool:
    """Sign a visitor in with an account's password of the demo, which the stage shows anyway.

    Returns:
        False if somebody has given the account another password.
    """
    if request.user.is_authenticated and request.user.get_username() == who.username:
        return True
    user = authenticate(request, username=who.username, password=who.password)
    if user is None:
        return False
    login(request, user)
    return True


class RoomFailed(Exception):
    """The room could not start again; the message says why."""


def start_again(user: AbstractBaseUser | AnonymousUser) -> None:
    """Let the show begin anew: the shop's front as it was seeded, the control room empty.

    What shows and load tests have left is no longer listed in the shop, and stays on the stage.

    Args:
        user: who asks, and may send buyers.

    Raises:
        RoomFailed: the room does not answer, or cannot heal its fault.
    """
    if settings.ROOM_URL:
        _empty_room(user.pk)
    # The demo fills its catalogue every minute, too, should this process end between the two.
    Sale.objects.filter(listed=True).update(listed=False)
    fill_catalogue()


def _empty_room(user: object) -> None:
    try:
        answer = urllib3.request(
            "POST",
            f"{settings.ROOM_URL}/actions/again",
            json={},
            headers={
                "Authorization": f"Bearer {views.issue(user, ['again'])}",
                "Connection": "close",
            },
            timeout=HEALING,
            retries=False,
        )
    except urllib3.exceptions.HTTPError as error:
        raise RoomFailed(str(error)) from error
    if answer.status != 200:
        raise RoomFailed(answer.json().get("detail", str(answer.status)))
