"""The settings of a development machine with the lab, for the demo.

`shop.environment.choose_settings` selects them if `SHOP_DEMO=1`.
"""

from development.settings import *  # noqa: F403
from development.settings import INSTALLED_APPS, LOGGING, TEMPLATES
from lab import environment as demo

DATA_DIR = demo.data_folder()

# The lab before the course, whose pages get the shop's frame (lab/templates/course/base.html).
INSTALLED_APPS = [*INSTALLED_APPS, "lab", "course"]
# The charts' library and the first section of a verdict, which its page carries with it.
REPORT = demo.PROJECT / "loadtest/checker/report"
STATICFILES_DIRS = [("lab/uplot", REPORT / "uplot"), ("lab/result", REPORT / "result")]
ROOT_URLCONF = "lab.urls"
# Templates that extend the shop's of the same name.
FIRST = [demo.PROJECT / "lab/demo/templates", *TEMPLATES[0]["DIRS"]]
TEMPLATES = [{**TEMPLATES[0], "DIRS": FIRST}]
LOGGING = {
    **LOGGING,
    "loggers": {**LOGGING["loggers"], "lab": {"level": demo.text("LOG_LEVEL")}},
}

# Safeguards that a demonstration goes without (lab/strategies/combining.py).
LAB_WITHOUT = demo.names("LAB_WITHOUT")
LAB_FAILPOINTS = demo.text("SHOP_FAILPOINTS")
LAB_SABOTAGE = demo.text("LAB_SABOTAGE")

# Each sale has a strategy, also one that oversells.
INVENTORY_SELLER = "lab.strategies.choice.BySale"
SHOP_ALLOW_UNSAFE_STRATEGIES = True

# Where the page of the control room finds its process; without one there is no such page.
ROOM_URL = demo.text("ROOM_URL")

# A signed-in user on this machine may have a lock of their own judged (course/views.py).
COURSE_OPEN = True

# Where Locust's page is, for the stage; empty: it does not run.
LOCUST_URL = demo.text("LOCUST_URL")

# Where the mail server keeps what it takes; proofs read there (lab/mail_server.py).
MAIL_FOLDER = DATA_DIR / "mail"
