"""Pages to sign in and up, the account page with its address and its buyer token, the link that
confirms an address, and resets of a password.

Resets are Django's views (`shop/urls.py`), with a limit of mails per address.
"""

from __future__ import annotations

from typing import Any, cast
from uuid import uuid4

from django.conf import settings
from django.contrib import messages
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
from django.utils.translation import gettext
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods
from django.views.generic import FormView

from inventory import outbox
from shop.accounts import addresses, throttle, tokens
from shop.accounts.models import User
from shop.accounts.throttle import ThrottledForm
from shop.mails.sending import MAX_ACCOUNTS, QUEUE, RESET
from shop.pages.forms import AddressForm, SignUpForm


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
        if address := form.cleaned_data.get("email"):
            messages.info(self.request, _on_its_way(address))
        return redirect(self.get_success_url())


def _on_its_way(address: str) -> str:
    # Neither page nor code tells whether the limit of mails has been reached.
    return gettext(
        "We are sending a mail to %(address)s. Open the link in it to get mails about your orders."
    ) % {"address": address}


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
    return _show_account(request, AddressForm(cast("User", request.user)), token)


@require_http_methods(["POST"])
@never_cache
@login_required
def change_address(request: HttpRequest) -> HttpResponse:
    """Send a link to another address of the account, or remove the address."""
    form = AddressForm(cast("User", request.user), request.POST)
    if not form.is_valid():
        return _show_account(request, form)
    form.save()
    address = form.cleaned_data["email"]
    removed = gettext("You will get no mails.")
    messages.info(request, _on_its_way(address) if address else removed)
    return redirect("account")


def _show_account(request: HttpRequest, form: AddressForm, token: str = "") -> HttpResponse:
    context = {
        "token": token,
        "key": uuid4(),
        "form": form if settings.PUBLIC_URL else None,
        "pending": addresses.pending(cast("User", request.user)),
    }
    return render(request, "shop/account.html", context)


@require_http_methods(["GET", "HEAD", "POST"])
@never_cache
def confirm_address(request: HttpRequest, token: str) -> HttpResponse:
    """Confirm the address that a mail with this link went to.

    Programs that look for malware open the links of mails, so opening one confirms only in a
    browser that is signed in to the account. Others show a button.
    """
    waiting = addresses.find(token)
    state = "unknown" if waiting is None else "asked"
    if waiting is not None and (request.method == "POST" or request.user.pk == waiting.user_id):
        addresses.confirm(waiting)
        state = "confirmed"
    return render(request, "shop/confirm_address.html", {"state": state})


class AskForm(PasswordResetForm):
    """An address. The answer never says whether it is known, or whether a mail was sent."""

    def save(self, *_: Any, **__: Any) -> None:
        """Let the follow-up send one mail to the address, with a link for each of its accounts."""
        address = self.cleaned_data["email"]
        with transaction.atomic():
            if not addresses.allows_request(address):
                return
            users = [user.pk for user in self.get_users(address)][:MAX_ACCOUNTS]
            if users:
                outbox.emit(RESET, {"users": users}, queue=QUEUE)


class Choose(PasswordResetConfirmView):
    """Choose a new password, which ends all sessions of the account."""

    def form_valid(self, form: SetPasswordForm[User]) -> HttpResponse:
        """Save it, and forget failed attempts to sign in."""
        throttle.forget(form.user.get_username())
        return super().form_valid(form)
