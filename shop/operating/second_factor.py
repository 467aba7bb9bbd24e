"""The second factor of staff: the admin asks for a code of an authenticator app with the password.

`SHOP_STAFF_SECOND_FACTOR=1` requires it. `manage.py second_factor NAME` gives somebody a key for
the app (TOTP, RFC 6238) and recovery codes, each of which works once; run again, it replaces them,
which is also the way back in for a user who has lost both. django-otp keeps the devices, and slows
down guessing: after each wrong code of a device, the next one is refused for twice as long.

A session in which no code was given does not open the admin for any user: a session from the shop's
own sign-in page, or one that began before the setting was changed.
"""

from __future__ import annotations

from typing import Any

from django import forms
from django.conf import settings
from django.contrib.admin.forms import AdminAuthenticationForm
from django.contrib.admin.sites import AdminSite as DjangosSite
from django.core.exceptions import ValidationError
from django.db import transaction
from django.http import HttpRequest
from django.utils.translation import gettext_lazy as _
from django_otp.plugins.otp_static.models import StaticDevice
from django_otp.plugins.otp_totp.models import TOTPDevice

DIGITS = 6
"""Of a code of an app. Recovery codes are eight letters and digits."""


class SecondFactorForm(AdminAuthenticationForm):
    """The admin's sign-in, with a code."""

    code = forms.CharField(
        max_length=16,
        label=_("Code of your authenticator app, or a recovery code"),
        widget=forms.TextInput(attrs={"autocomplete": "one-time-code"}),
    )
    error_messages = {
        **AdminAuthenticationForm.error_messages,
        "wrong_code": _(
            "This code is not right, or was used before, or too many were tried. "
            "Please wait for the next one."
        ),
    }

    def clean(self) -> dict[str, Any]:
        """Check the code once name and password are right.

        Raises:
            ValidationError: one of them is not.
        """
        cleaned: dict[str, Any] = super().clean()
        user: Any = self.get_user()
        if user is not None and "code" in cleaned:
            # The sign-in writes the device into the session.
            user.otp_device = verified_device(user, cleaned["code"].replace(" ", "").lower())
            if user.otp_device is None:
                raise ValidationError(self.error_messages["wrong_code"], code="wrong_code")
        return cleaned


class AdminSite(DjangosSite):
    """Django's admin; with a second factor where the setting requires it."""

    @property
    def login_form(self) -> type[AdminAuthenticationForm] | None:  # type: ignore[override]
        """Return the form of the sign-in."""
        return SecondFactorForm if settings.STAFF_SECOND_FACTOR else None

    @property
    def login_template(self) -> str | None:  # type: ignore[override]
        """Return the template of the sign-in."""
        return "admin/second_factor.html" if settings.STAFF_SECOND_FACTOR else None

    def has_permission(self, request: HttpRequest) -> bool:
        """Return whether this user may see the admin in this session."""
        if not super().has_permission(request):
            return False
        user: Any = request.user
        return not settings.STAFF_SECOND_FACTOR or user.is_verified()


def verified_device(user: Any, code: str) -> Any:
    """Return the device that a code is of; None if it is wrong, used, or comes too soon.

    A code is tried at one kind of device only, so that a wrong one delays only that kind.
    """
    kind: Any = TOTPDevice if len(code) == DIGITS and code.isdecimal() else StaticDevice
    with transaction.atomic():
        # Locked, so that a code that two requests bring at once is used once.
        rows = kind.objects.filter(user=user, confirmed=True).select_for_update()
        device = rows.order_by("pk").first()
        return device if device is not None and device.verify_token(code) else None
