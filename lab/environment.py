"""Environment variables of the demo and the lab, in addition to the shop's own."""

from __future__ import annotations

from development.environment import VARIABLES as DEVELOPMENT_VARIABLES
from development.folder import data_folder
from shop.environment import (
    PROJECT,
    Variable,
    declare,
    is_set,
    names,
    number,
    switch,
    text,
)
from shop.environment import VARIABLES as SHOP_VARIABLES

MAIL_PORT = 8791
"""Where the demo's mail server listens, if that port is free."""

ROOM_PORT = 8792
"""Where the control room's process listens, if that port is free."""

VARIABLES = DEVELOPMENT_VARIABLES + declare(
    Variable("LOCUST_PORT", "8089", "Locust's port; if unset and taken, the next free one"),
    Variable("CELERY_CONCURRENCY", "2", "Celery worker processes"),
    Variable("LAB_WITHOUT", "", "demo only: safeguards that are off: admission, lock, guard"),
    Variable("ROOM_URL", "", "demo: address of the control room's process; unset: no such page"),
    Variable(
        "LOCUST_URL", "", "demo: address of Locust's page; unset: the stage has no link to it"
    ),
    Variable("SHOP_FAILPOINTS", "", "demo only: folder through which a proof arms failpoints"),
    Variable("LAB_SABOTAGE", "", "demo only: a bug for a negative control (lab/proof/sabotage.py)"),
)

ALL_VARIABLES = (*SHOP_VARIABLES, *VARIABLES)
"""The shop's variables and those of the demo."""


__all__ = [
    "ALL_VARIABLES",
    "MAIL_PORT",
    "PROJECT",
    "ROOM_PORT",
    "VARIABLES",
    "data_folder",
    "is_set",
    "names",
    "number",
    "switch",
    "text",
]
