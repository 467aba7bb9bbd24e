"""Settings for mypy: the lab's, plus the payment provider's models."""

from lab.psp.settings import PSP_BEHAVIOUR, PSP_BEHAVIOUR_MAY_CHANGE, PSP_WEBHOOK_URL
from lab.settings import *  # noqa: F403
from lab.settings import INSTALLED_APPS

INSTALLED_APPS = [*INSTALLED_APPS, "lab.psp"]
__all__ = ["INSTALLED_APPS", "PSP_BEHAVIOUR", "PSP_BEHAVIOUR_MAY_CHANGE", "PSP_WEBHOOK_URL"]
