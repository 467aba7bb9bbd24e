"""The audit's report: all comparisons in one."""

from __future__ import annotations

from dataclasses import dataclass, field

from django.conf import settings

from inventory.audit import Book, audit
from shop.audit import late, money
from shop.orders import mismatches
from shop.payments.provider import PaymentUnknown


@dataclass(slots=True)
class Report:
    """The findings of one audit.

    Attributes:
        items: a book for each item.
        problems: one sentence per contradiction, which only a bug can explain.
        overdue: one sentence per kind of overdue work.
        unchecked: what could not be compared, and why.
    """

    items: list[Book] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    overdue: list[str] = field(default_factory=list)
    unchecked: list[str] = field(default_factory=list)

    @property
    def balanced(self) -> bool:
        """Tell whether no comparison found a contradiction."""
        return not self.problems


def examine(items: list[int] | None = None) -> Report:
    """Run all comparisons while the shop keeps selling.

    Args:
        items: ids of items, to check only their sales; None for all.
    """
    books = audit(items)
    report = Report(books.items, [*books.problems, *mismatches(items)])
    report.overdue = late.work(items)
    if not settings.PAYMENT_PROVIDER:
        return report
    report.problems += money.unpaid(items)
    try:
        report.problems += money.against_the_provider(items)
    except PaymentUnknown as error:
        report.unchecked.append(f"payments against the provider's ledger: {error}")
    return report
