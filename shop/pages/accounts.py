"""Signing in and up, and the account with its buyer token."""

from __future__ import annotations

from uuid import uuid4

from django.conf import settings
from django.contrib.auth import login
from django.contrib.auth.decorators import login_required
from django.contrib.auth.views import LoginView, RedirectURLMixin
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render, resolve_url
from django.views.decorators.cache import never_cache
from django.views.generic import FormView

from shop.accounts import tokens
from shop.pages.forms import SignUpForm


class SignIn(LoginView):
    """Sign in, and go on to where one was."""

    template_name = "shop/sign_in.html"
    redirect_authenticated_user = True


class SignUp(RedirectURLMixin, FormView):
    """Make an account, and be signed in."""

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
    """Who is signed in; POST makes a buyer token and shows it."""
    token = ""
    if request.method == "POST" and request.user.is_authenticated:
        token = tokens.issue(request.user.pk)
    return render(request, "shop/account.html", {"token": token, "key": uuid4()})
