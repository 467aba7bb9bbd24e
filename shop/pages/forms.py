"""Forms of the pages."""

from typing import Any

from django import forms
from django.contrib.auth.forms import UserCreationForm, UsernameField

from shop.accounts.models import User, normal
from shop.checkout import MAX_UNITS
from shop.orders.models import Order


class KeyedForm(forms.BaseForm):
    """A form with the page's idempotency key."""

    def refusal(self) -> str:
        """Return the code of the form's error."""
        codes = {"key": "idempotency_key_missing", "quantity": "invalid_quantity"}
        return next((codes[name] for name in codes if name in self.errors), "invalid_request")


class CartForm(KeyedForm, forms.ModelForm):  # type: ignore[type-arg]
    """The purchase of a cart: the key, and the details of the order."""

    key = forms.UUIDField()

    class Meta:
        model = Order
        fields = Order.DETAILS

    def details(self) -> dict[str, Any]:
        """Return the details, once they are valid."""
        return {name: self.cleaned_data[name] for name in Order.DETAILS}

    def detail_fields(self) -> list[forms.BoundField]:
        """Return the fields of the details, for the template."""
        return [self[name] for name in Order.DETAILS]


class BuyForm(CartForm):
    """A purchase in one sale: the key, the details and the quantity."""

    quantity = forms.IntegerField(min_value=1, max_value=MAX_UNITS)


class LineForm(forms.Form):
    """The quantity of a sale in the cart; 0 removes it."""

    quantity = forms.IntegerField(min_value=0, max_value=MAX_UNITS)


class PartForm(KeyedForm, forms.Form):
    """A part of an order: the line, the quantity and the key."""

    key = forms.UUIDField()
    quantity = forms.IntegerField(min_value=1, max_value=MAX_UNITS)
    sale = forms.IntegerField(min_value=1)


class NormalUsernameField(UsernameField):
    """A form's field whose value is the normal form of what was typed."""

    def to_python(self, value: Any) -> Any:
        """Convert; a value that is too long stays as it is and is refused."""
        name = super().to_python(value) or ""
        return name if self.max_length and len(name) > self.max_length else normal(name)


class SignUpForm(UserCreationForm):  # type: ignore[type-arg]
    """A new buyer. The address, for the confirmation mail, is optional."""

    class Meta:
        model = User
        fields: Any = ("username", "email")
        field_classes: Any = {"username": NormalUsernameField}
        widgets: Any = {"email": forms.EmailInput(attrs={"autocomplete": "email"})}
