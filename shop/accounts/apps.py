"""The accounts, an app of their own: a user model must be there from the first migration."""

from django.apps import AppConfig


class AccountsConfig(AppConfig):
    """Users and the generations of their tokens."""

    name = "shop.accounts"
    label = "accounts"
    default_auto_field = "django.db.models.BigAutoField"
