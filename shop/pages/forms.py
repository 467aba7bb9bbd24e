"""What the pages' forms accept."""

from typing import Any

from django import forms
from django.contrib.auth.forms import UserCreationForm
from django.contrib.auth.models import User

from shop.checkout.purchase import MOST_UNITS


class BuyForm(forms.Form):
    """A purchase: the key that was written into the page, and how many."""

    key = forms.UUIDField()
    quantity = forms.IntegerField(min_value=1, max_value=MOST_UNITS)

    def refusal(self) -> str:
        """The code of what is wrong with it."""
        return "idempotency_key_missing" if "key" in self.errors else "invalid_quantity"


class LineForm(forms.Form):
    """How many units of a sale are to be in the cart; 0 for none."""

    quantity = forms.IntegerField(min_value=0, max_value=MOST_UNITS)


class PartForm(BuyForm):
    """A part of an order: how many of which line, under the key that was written into the page."""

    sale = forms.IntegerField(min_value=1)


class SignUpForm(UserCreationForm):
    """A new buyer. The address is for the confirmation mail, and may be left out."""

    class Meta:
        model = User
        fields: Any = ("username", "email")
