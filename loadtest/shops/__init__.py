"""One adapter per shop, by `loadtest/shop.py`."""

from __future__ import annotations

import importlib
import sys
from typing import cast

from loadtest.adapter_steps import STEP, within
from loadtest.address import RunImpossible, address_of
from loadtest.full_shop import FullShop
from loadtest.shop import Cancels, Carts, Expires, Level, Shop, Vouchers
from loadtest.shops.setup import names

OURS = "flash_sale"
"""This project's own shop, which is loaded as a whole and not by rushes only."""


DEPLOYED = f"{__name__}.{OURS}.deployed:Adapter"
"""The same shop where it is in production, without calls for load tests."""


def load_full(host: str, *, deployed: bool = False, owned: bool = False) -> FullShop:
    """Return the adapter with all levels, for a shop at this address.

    Args:
        host: the address.
        deployed: whether the shop is in production.
        owned: the caller owns the host, so that it may be another machine.

    Raises:
        RunImpossible: the host may not be loaded.
    """
    address_of(host, owned=owned)
    return cast(FullShop, load(DEPLOYED if deployed else OURS, host))


_ASKED: dict[Level, type] = {
    Level.STOCK: Shop,
    Level.VOUCHERS: Vouchers,
    Level.CARTS: Carts,
    Level.CANCEL: Cancels,
    Level.EXPIRY: Expires,
}


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

    def make() -> Shop:
        made: Shop = getattr(importlib.import_module(module), attribute)(host)
        if not {Level.STOCK} <= made.levels <= set(Level):
            raise ValueError(f"its levels are {made.levels}, without 'stock' or with unknown ones")
        return made

    made = within(STEP, f"loading the adapter {name}", make)
    asked = [kind for level, kind in _ASKED.items() if level in made.levels]
    members = {member for kind in asked for member in (*kind.__annotations__, *vars(kind))}
    if missing := sorted(n for n in members if not n.startswith("_") and not hasattr(made, n)):
        raise RunImpossible(f"the adapter {name} lacks {', '.join(missing)}")
    return made
