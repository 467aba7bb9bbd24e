"""The sales of a run: some that exist, or fresh ones."""

from __future__ import annotations

from argparse import Namespace

from loadtest.roles import MAIN, SaleTerms, parse_sales, roles_for, terms_of
from loadtest.shops.flash_sale.demo import DemoShop

# A fresh sale opens when every user has started, about: seconds beyond the spawning itself.
GATHERING = 2.0


def main_terms(options: Namespace) -> SaleTerms:
    """Read the terms of the main sale from the options."""
    return SaleTerms(int(options.stock), int(options.limit), options.strategy)


def open_for_run(shop: DemoShop, options: Namespace) -> str:
    """Open a main sale that starts when the users have gathered: its id. Raises `ShopRefused`."""
    starts_in = GATHERING + (options.num_users or 1) / (options.spawn_rate or 1)
    return shop.open_sale(main_terms(options), starts_in)


def open_now(shop: DemoShop, options: Namespace) -> str:
    """Open a main sale that starts at once: its id. Raises `ShopRefused`."""
    return shop.open_sale(main_terms(options), 0.0)


def open_beside(shop: DemoShop, options: Namespace) -> dict[str, str]:
    """Open the further sales that the mix needs: their ids by role. Raises `ShopRefused`."""
    main = main_terms(options)
    # No buyer looks at them before the run's own sale opens.
    return {
        role: shop.open_sale(terms_of(role, main), 0.0)
        for role in roles_for(options.mix)
        if role != MAIN
    }


def beside(options: Namespace) -> dict[str, str]:
    """The ids of the further sales that were chosen or opened, by role."""
    return parse_sales(options.others)
