"""Pages to sign in and up, the account page with its buyer token, and resets of a password.

Those are Django's views (`shop/urls.py`), with a limit of mails per address.
"""

from __future__ import annotations

from typing import Any
from uuid import uuid4

from django.conf import settings
from django.contrib.auth import login
from django.contrib.auth.decorators import login_required
from django.contrib.auth.forms import PasswordResetForm, SetPasswordForm
from django.contrib.auth.views import (
    LoginView,
    PasswordResetConfirmView,
    RedirectURLMixin,
    redirect_to_login,
)
from django.db import transaction
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.decorators import method_decorator
from django.views.decorators.cache import never_cache
from django.views.generic import FormView

from inventory import outbox
from shop.accounts import throttle, tokens
from shop.accounts.models import User
from shop.accounts.throttle import ThrottledForm
from shop.mails.sending import QUEUE, RESET
from shop.pages.forms import SignUpForm


class SignIn(LoginView):
    """Sign in, and return to the page that asked for it."""

    template_name = "shop/sign_in.html"
    authentication_form = ThrottledForm
    redirect_authenticated_user = True
    extra_context = {"can_reset": bool(settings.PUBLIC_URL)}


@method_decorator(never_cache, name="dispatch")  # as Django's page to sign in
class SignUp(RedirectURLMixin, FormView):  # type: ignore[type-arg]
    """Create an account and sign in."""

    form_class = SignUpForm
    template_name = "shop/sign_up.html"
    next_page = settings.LOGIN_REDIRECT_URL

    def get_context_data(self, **context: Any) -> dict[str, Any]:  # noqa: D102
        # The form posts it, as that of Django's own view does.
        return super().get_context_data(next=self.get_redirect_url(), **context)

    def form_valid(self, form: SignUpForm) -> HttpResponse:  # noqa: D102
        login(self.request, form.save())
        return redirect(self.get_success_url())


@never_cache
@login_required
def account(request: HttpRequest) -> HttpResponse:
    """Show the account; POST creates a buyer token and shows it."""
    token = ""
    if request.method == "POST" and request.user.is_authenticated:
        try:
            token = tokens.issue_to(request.user)
        except tokens.BadToken:  # deactivated just now, or a new password
            return redirect_to_login(request.path)
    return render(request, "shop/account.html", {"token": token, "key": uuid4()})


class AskForm(PasswordResetForm):
    """An address. The answer never says whether it is known, or whether a mail was sent."""

    def save(self, *_: Any, **__: Any) -> None:
        """Let the follow-up send a mail to each account of the address."""
        address = self.cleaned_data["email"]
        if not throttle.allows_reset(address):
            return
        with transaction.atomic():
            for user in self.get_users(address):
                outbox.emit(RESET, {"user": user.pk}, queue=QUEUE)


class Choose(PasswordResetConfirmView):
    """Choose a new password, which ends all sessions of the account."""

    def form_valid(self, form: SetPasswordForm[User]) -> HttpResponse:
        """Save it, and forget failed attempts to sign in."""
        throttle.forget(form.user.get_username())
        return super().form_valid(form)
