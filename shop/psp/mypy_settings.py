"""What mypy takes for the settings: the shop's, with the payment provider's models beside them."""

from shop.psp.settings import PSP_BEHAVIOUR, PSP_WEBHOOK_URL
from shop.settings import *  # noqa: F403
from shop.settings import INSTALLED_APPS as SHOPS

INSTALLED_APPS = [*SHOPS, "shop.psp"]
__all__ = ["INSTALLED_APPS", "PSP_BEHAVIOUR", "PSP_WEBHOOK_URL"]
