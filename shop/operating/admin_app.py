"""Django's admin with the shop's own site, which is apart because it needs models to be loaded."""

from django.contrib.admin.apps import AdminConfig as DjangosConfig


class AdminConfig(DjangosConfig):
    """Django's admin, whose site can ask for a second factor."""

    default_site = "shop.operating.second_factor.AdminSite"
