"""Opening the sales of a run."""

from __future__ import annotations

from dataclasses import replace

from loadtest.roles import MAIN
from loadtest.shops.flash_sale.demo import DemoShop
from loadtest.steps.plan import RunPlan


def open_sales(shop: DemoShop, plan: RunPlan, starts_in: float) -> RunPlan:
    """Open the sales that the plan has no ids of, and return the plan with these.

    The main one opens in so many seconds, the further ones at once: no buyer looks at them before
    the main one opens. Raises `ShopRefused`.
    """
    sale = plan.sale or shop.open_sale(plan.wanted[MAIN], starts_in)
    beside = plan.beside or {
        role: shop.open_sale(terms, 0.0) for role, terms in plan.wanted.items() if role != MAIN
    }
    return replace(plan, sale=sale, beside=beside)
