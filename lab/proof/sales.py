"""The sales of a proof, opened for it alone."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from datetime import timedelta

from msgspec.structs import replace

from lab.proof import terms
from lab.proof.plan import Plan
from lab.strategies.choice import open_sale
from loadtest.checker.snapshot import Terms
from loadtest.roles import MAIN, SaleTerms
from shop.catalogue.models import Sale

LASTS = timedelta(hours=3)
"""Less than a faulty clock is stepped by: a sale judged by it would be over, or not begun."""


@dataclass(frozen=True, slots=True)
class OpenedSale:
    """A sale that was opened, and the terms that it has from then on."""

    sale: Sale
    terms: Terms

    @classmethod
    def of(cls, wanted: SaleTerms, starts_in: float) -> OpenedSale:
        """Open a sale that starts in so many seconds."""
        asked = terms.clock()
        named = {**asdict(wanted), "hold": timedelta(seconds=wanted.hold)}
        sale = open_sale(**named, starts_in=timedelta(seconds=starts_in), lasts=LASTS)
        return cls(sale, replace(terms.change(sale.pk), asked=asked))


def open_sales(plan: Plan) -> dict[str, OpenedSale]:
    """Open the sales of a plan: by role, the main one first."""
    gathers_in = plan.profile.gathers_in
    # The further ones start at once: no buyer looks at them before the main one opens.
    return {
        role: OpenedSale.of(wanted, gathers_in if role == MAIN else 0.0)
        for role, wanted in plan.sales.items()
    }
