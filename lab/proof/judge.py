"""The verdict on a proof: the final read of the database and the provider, and the checker."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from django.db import Error

from lab.proof import deliveries, provider_ledger, snapshot
from lab.proof.plan import Plan
from loadtest.orchestrator import Judged, RunFiles, judge_run
from shop.orders.models import Order
from shop.payments.provider import PaymentUnknown

log = logging.getLogger(__name__)


def judge(plan: Plan, sales: Sequence[int], files: RunFiles) -> Judged:
    """Read the final state of these sales and compare every answer with it."""
    try:
        snapshot.write(files.final, sales)
    except Error as error:
        files.final.unlink(missing_ok=True)
        return Judged(None, f"no final read: {error}")
    _write_ledger(sales, files)
    _write_deliveries(sales, files)
    return judge_run(files, files.histories(), plan.of_run.not_judged)


def _write_ledger(sales: Sequence[int], files: RunFiles) -> None:
    """Write what the payment provider moved, or nothing if it does not say: P11 is then unknown."""
    orders = Order.objects.filter(lines__sale__in=sales).values_list("pk", flat=True)
    try:
        provider_ledger.write(files.ledger, set(orders))
    except PaymentUnknown as error:
        files.ledger.unlink(missing_ok=True)
        log.warning("%s", error)


def _write_deliveries(sales: Sequence[int], files: RunFiles) -> None:
    """Write which mails were delivered, or nothing if they go elsewhere: P19 is then unknown."""
    try:
        deliveries.write(files.deliveries, sales)
    except (deliveries.NoMailServer, Error) as error:
        files.deliveries.unlink(missing_ok=True)
        log.warning("%s", error)
