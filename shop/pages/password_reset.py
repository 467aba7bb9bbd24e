"""Pages to reset a password: Django's views, with a limit of mails per address.

They exist only where PUBLIC_URL is set: a link that was made from the request's `Host` could be
made to lead elsewhere.
"""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.contrib.auth import views
from django.contrib.auth.forms import PasswordResetForm, SetPasswordForm
from django.db import transaction
from django.http import Http404, HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.views.generic import View
from django.views.generic.base import TemplateResponseMixin

from inventory import outbox
from shop.accounts import throttle
from shop.accounts.models import User
from shop.mails.password_reset import TOPIC
from shop.mails.sending import QUEUE


class AskForm(PasswordResetForm):
    """An address. The answer never says whether it is known, or whether a mail was sent."""

    def save(self, *_: Any, **__: Any) -> None:
        """Let the follow-up send a mail to each account of the address."""
        address = self.cleaned_data["email"]
        if not throttle.allows_reset(address):
            return
        with transaction.atomic():
            for user in self.get_users(address):
                outbox.emit(TOPIC, {"user": user.pk}, queue=QUEUE)


class _Page(TemplateResponseMixin, View):
    template_name = "shop/password_reset.html"

    def dispatch(self, request: HttpRequest, *arguments: Any, **named: Any) -> HttpResponseBase:
        """Answer, if the shop knows its address."""
        if not settings.PUBLIC_URL:
            raise Http404
        return super().dispatch(request, *arguments, **named)


class Ask(_Page, views.PasswordResetView):
    """Ask for a mail."""

    form_class = AskForm


class Sent(_Page, views.PasswordResetDoneView):
    """Say that a mail is on its way, if there is such an account."""

    said = "sent"


class Choose(_Page, views.PasswordResetConfirmView):
    """Choose a new password, which ends all sessions of the account."""

    def form_valid(self, form: SetPasswordForm[User]) -> HttpResponse:
        """Save it, and forget failed attempts to sign in."""
        throttle.forget(form.user.get_username())
        return super().form_valid(form)


class Done(_Page, views.PasswordResetCompleteView):
    """Say that the new password works."""

    said = "done"
