"""Settings for oscar's own tests, in a checkout of it: theirs, guarded unless `GUARDED=0`."""

from tests.settings import *  # noqa: F403
from tests.settings import INSTALLED_APPS

from project.settings import DATABASES as POOLED
from project.settings import FORKS, GUARDED
from project.settings import MIGRATION_MODULES as MIGRATIONS

DATABASES = {"default": {**POOLED["default"], "OPTIONS": {}}}
if GUARDED:
    guarded = [FORKS.get(app, app) for app in INSTALLED_APPS]
    INSTALLED_APPS = [*guarded, "inventory", "guarded", "project.apps.OwnTestsConfig"]
    MIGRATION_MODULES = {"order": MIGRATIONS["order"]}
