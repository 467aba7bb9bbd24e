"""Pages to sign in and up, and the account page with its buyer token."""

from __future__ import annotations

from uuid import uuid4

from django.conf import settings
from django.contrib.auth import login
from django.contrib.auth.decorators import login_required
from django.contrib.auth.views import LoginView, RedirectURLMixin, redirect_to_login
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render, resolve_url
from django.views.decorators.cache import never_cache
from django.views.generic import FormView

from shop.accounts import tokens
from shop.accounts.throttle import ThrottledForm
from shop.pages.forms import SignUpForm


class SignIn(LoginView):
    """Sign in, and return to the page that asked for it."""

    template_name = "shop/sign_in.html"
    authentication_form = ThrottledForm
    redirect_authenticated_user = True
    extra_context = {"can_reset": bool(settings.PUBLIC_URL)}


class SignUp(RedirectURLMixin, FormView):  # type: ignore[type-arg]
    """Create an account and sign in."""

    form_class = SignUpForm
    template_name = "shop/sign_up.html"

    def get_default_redirect_url(self) -> str:  # noqa: D102
        return resolve_url(settings.LOGIN_REDIRECT_URL)

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
