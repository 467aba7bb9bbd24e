"""Form fields of the accounts."""

from __future__ import annotations

from typing import Any

from django.contrib.auth.forms import UsernameField

from shop.accounts.usernames import normal


class NormalUsernameField(UsernameField):
    """A form's field whose value is the normal form of what was typed."""

    def to_python(self, value: Any) -> Any:
        """Convert; a value that is too long stays as it is and is refused."""
        name = super().to_python(value) or ""
        return name if self.max_length and len(name) > self.max_length else normal(name)
