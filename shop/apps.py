"""The storefront as a Django app."""

from django.apps import AppConfig


class ShopConfig(AppConfig):
    """Products, sales, orders, pages and the API."""

    name = "shop"
    default_auto_field = "django.db.models.BigAutoField"
