"""Environment variables of the demo and the lab, beside the shop's own."""

from __future__ import annotations

from pathlib import Path

from shop.environment import (
    PROJECT,
    Variable,
    choose_settings,
    declare,
    is_set,
    names,
    number,
    refuse_unsafe_start,
    switch,
    text,
)

PSP_PORT = 8790
"""Where the demo's payment provider listens, if that port is free."""

VARIABLES = declare(
    Variable("PSP_WEBHOOK_URL", "", "of the demo's provider: the shop's address for webhooks"),
    Variable("PSP_DATABASE_URL", "", "its database; unset: `psp` on the shop's server"),
    Variable("PSP_BEHAVIOUR", "", "how badly it behaves, as JSON (lab/psp/behaviour.py)"),
    Variable("SHOP_DATA", ".data", "folder of the embedded servers, secrets, logs and mails"),
    Variable("LOCUST_PORT", "8089", "the Locust page's port; unset and taken: the next free one"),
    Variable("CELERY_CONCURRENCY", "2", "Celery worker processes"),
    Variable(
        "INVENTORY_LINES", "admission,lock,guard,connections", "demo only: safeguards that are on"
    ),
    Variable("SHOP_MARKS", "", "demo only: folder of the points at which a proof kills processes"),
)


def data_folder() -> Path:
    """Return the absolute folder in which the demo keeps everything it writes."""
    return (PROJECT / Path(text("SHOP_DATA")).expanduser()).resolve()


__all__ = [
    "PROJECT",
    "PSP_PORT",
    "VARIABLES",
    "choose_settings",
    "data_folder",
    "is_set",
    "names",
    "number",
    "refuse_unsafe_start",
    "switch",
    "text",
]
