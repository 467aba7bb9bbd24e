"""Environment variables of a development machine, in addition to the shop's own."""

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
    switch,
    text,
)

VARIABLES = declare(
    Variable(
        "SHOP_DATA", ".data", "folder for the embedded servers' data, secrets, logs and mails"
    ),
)


def data_folder() -> Path:
    """Return the absolute path of the data folder."""
    return (PROJECT / Path(text("SHOP_DATA")).expanduser()).resolve()


__all__ = [
    "PROJECT",
    "VARIABLES",
    "choose_settings",
    "data_folder",
    "is_set",
    "names",
    "number",
    "switch",
    "text",
]
