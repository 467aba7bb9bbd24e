"""Forms of the pages."""

from typing import Any

from django import forms
from django.conf import settings
from django.contrib.auth import authenticate
from django.contrib.auth.forms import UserCreationForm, UsernameField
from django.db import transaction
from django.utils.translation import gettext_lazy as _

from shop.accounts import addresses
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
    """A new buyer. The address is optional; mails go to it once a link in a mail has confirmed it.

    A shop that does not know its own address (`PUBLIC_URL`) can send no link and asks for none.
    """

    class Meta:
        model = User
        fields: Any = ("username", "email")
        field_classes: Any = {"username": NormalUsernameField}
        widgets: Any = {"email": forms.EmailInput(attrs={"autocomplete": "email"})}

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        if settings.PUBLIC_URL:
            self.fields["email"].validators.append(addresses.validate_mailable)
        else:
            del self.fields["email"]

    @transaction.atomic
    def save(self, commit: bool = True) -> Any:
        """Create the account without its address, and send a link to that."""
        self.instance.email = ""
        user = super().save(commit)
        addresses.propose(user, self.cleaned_data.get("email", ""))
        return user


class AddressForm(forms.Form):
    """Another address for an account, or none.

    Anybody who finds a signed-in browser could otherwise take the account over with a password
    reset.

    Args:
        user: whose address.
    """

    email = forms.EmailField(
        label=_("New email address"),
        required=False,
        max_length=254,
        validators=[addresses.validate_mailable],
        help_text=_("Leave it empty to get no mails."),
        widget=forms.EmailInput(attrs={"autocomplete": "email"}),
    )
    password = forms.CharField(
        label=_("Your password"),
        strip=False,
        widget=forms.PasswordInput(attrs={"autocomplete": "current-password"}),
    )

    def __init__(self, user: User, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._user = user

    def clean_password(self) -> str:
        """Check the password, with the limit of attempts that signing in has."""
        password: str = self.cleaned_data["password"]
        if authenticate(None, username=self._user.get_username(), password=password) is None:
            raise forms.ValidationError(_("This is not your password."), code="wrong_password")
        return password

    def save(self) -> None:
        """Remove the address, or let a link in a mail confirm the new one."""
        address = self.cleaned_data["email"]
        if not address:
            User.objects.filter(pk=self._user.pk).update(email="")
        addresses.propose(self._user, "" if address == self._user.email else address)
