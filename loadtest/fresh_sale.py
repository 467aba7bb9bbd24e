"""The sale of a run: one that exists, or a fresh one."""

from __future__ import annotations

from argparse import Namespace
from typing import NamedTuple

from loadtest.demo_shop import DemoShop
from loadtest.scenarios import sales_for

# A fresh sale opens when every user has started, about: seconds beyond the spawning itself.
GATHERING = 2.0


class SaleTerms(NamedTuple):
    """What a fresh sale is opened with."""

    strategy: str
    stock: int
    limit: int

    @classmethod
    def of(cls, options: Namespace) -> SaleTerms:
        """Read the terms from the options."""
        return cls(options.strategy, int(options.stock), int(options.limit))


def open_for_run(shop: DemoShop, options: Namespace) -> str:
    """Open a sale that starts when the users have gathered: its id. Raises `ShopRefused`."""
    starts_in = GATHERING + (options.num_users or 1) / (options.spawn_rate or 1)
    return shop.open_sale(**SaleTerms.of(options)._asdict(), starts_in=starts_in)


def open_now(shop: DemoShop, options: Namespace) -> str:
    """Open a sale that starts at once: its id. Raises `ShopRefused`."""
    return shop.open_sale(**SaleTerms.of(options)._asdict(), starts_in=0)


def open_beside(shop: DemoShop, options: Namespace) -> list[str]:
    """Open the further sales from which the mix fills carts: their ids. Raises `ShopRefused`."""
    # No buyer looks at them before the run's own sale opens.
    return [open_now(shop, options) for _ in range(sales_for(options.mix) - 1)]


def beside(options: Namespace) -> list[str]:
    """The ids of the further sales that were chosen or opened."""
    return [each for each in options.others.split(",") if each]
