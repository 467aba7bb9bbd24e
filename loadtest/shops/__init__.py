"""One adapter per shop, by `loadtest/shop.py`."""

from __future__ import annotations

import importlib
import sys

from loadtest.address import RunImpossible
from loadtest.shop import Shop
from loadtest.shops.setup import names

OURS = "flash_sale"
"""This project's own shop, which is loaded as a whole and not by rushes only."""


def load(name: str, host: str) -> Shop:
    """Return the adapter of this name for a shop at this address.

    Args:
        name: of a shop in this package, or `module:Class`, from the Python path or the current
            folder.
        host: the shop's address.

    Raises:
        RunImpossible: there is none, or it fails.
    """
    module, colon, attribute = name.partition(":")
    if not colon:
        if name not in names():
            raise RunImpossible(
                f"no shop {name!r}: there are {', '.join(names())}, and adapters of your own, "
                "named like path.to:Adapter"
            )
        module, attribute = f"{__name__}.{name}.adapter", "Adapter"
    if "" not in sys.path:
        sys.path.insert(0, "")
    try:
        made: Shop = getattr(importlib.import_module(module), attribute)(host)
    except Exception as error:
        raise RunImpossible(f"no adapter {name}: {type(error).__name__}: {error}") from error
    if missing := [each for each in ("name", "version", "levels") if not hasattr(made, each)]:
        raise RunImpossible(f"the adapter {name} lacks {', '.join(missing)}")
    return made
