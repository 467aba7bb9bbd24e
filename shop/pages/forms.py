"""Forms of the pages."""

from typing import Any

from django import forms
from django.contrib.auth.forms import UserCreationForm

from shop.accounts.forms import NormalUsernameField
from shop.accounts.models import User
from shop.checkout.purchase import MAX_UNITS


class BuyForm(forms.Form):
    """A purchase: the page's idempotency key and the quantity."""

    key = forms.UUIDField()
    quantity = forms.IntegerField(min_value=1, max_value=MAX_UNITS)

    def refusal(self) -> str:
        """Return the code of the form's error."""
        return "idempotency_key_missing" if "key" in self.errors else "invalid_quantity"


class LineForm(forms.Form):
    """The quantity of a sale in the cart; 0 removes it."""

    quantity = forms.IntegerField(min_value=0, max_value=MAX_UNITS)


class PartForm(BuyForm):
    """A part of an order: the line, the quantity and the page's idempotency key."""

    sale = forms.IntegerField(min_value=1)


class SignUpForm(UserCreationForm):  # type: ignore[type-arg]
    """A new buyer. The address, for the confirmation mail, is optional."""

    class Meta:
        model = User
        fields: Any = ("username", "email")
        field_classes: Any = {"username": NormalUsernameField}
        widgets: Any = {"email": forms.EmailInput(attrs={"autocomplete": "email"})}
